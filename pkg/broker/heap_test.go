package broker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeapGivesMessagesInOrderWhateverIsRemoved(t *testing.T) {
	var h heap[bySequence]
	random := rand.New(rand.NewPCG(1, 2))
	var kept []uint64
	for round := range 20 {
		messages := make([]*message, 0, 200)
		for range 200 {
			m := &message{state: state{seq: uint64(round*1000) + random.Uint64N(1000)}, place: absent, expiry: absent}
			messages = append(messages, m)
			h.push(m)
		}
		for i, m := range messages {
			if i%3 == 0 {
				h.remove(m)
				require.EqualValues(t, absent, m.place)
				h.remove(m) // not there any more: nothing happens
				continue
			}
			kept = append(kept, m.seq)
		}
	}
	slices.Sort(kept)
	var popped []uint64
	for h.len() > 0 {
		popped = append(popped, h.pop().seq)
	}
	require.Equal(t, kept, popped)
}

func TestDelayedMessagesWithTheSameDueTimeKeepTheOrderOfSending(t *testing.T) {
	var h heap[byDue]
	for _, id := range []uint64{3, 1, 2} {
		h.push(&message{id: id, state: state{dueAt: 7}, place: absent})
	}
	h.push(&message{id: 4, state: state{dueAt: 6}, place: absent})
	var ids []uint64
	for h.len() > 0 {
		ids = append(ids, h.pop().id)
	}
	require.Equal(t, []uint64{4, 1, 2, 3}, ids)
}

func TestHeapGivesMemoryBack(t *testing.T) {
	var h heap[bySequence]
	for i := range uint64(100_000) {
		h.push(&message{state: state{seq: i}, place: absent})
	}
	for h.len() > 0 {
		h.pop()
	}
	require.LessOrEqual(t, cap(h.items), 64)
}
