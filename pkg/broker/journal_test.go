package broker

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// gateStore lets a test hold, count and fail commits.
type gateStore struct {
	*memoryStore
	gate  chan error // each commit takes one; the test decides its outcome
	sizes []int      // mutations of each commit
}

func newGateStore() *gateStore {
	return &gateStore{memoryStore: newMemoryStore(), gate: make(chan error)}
}

func (s *gateStore) commit(mutations []mutation) error {
	s.sizes = append(s.sizes, len(mutations))
	if err := <-s.gate; err != nil {
		return err
	}
	return s.memoryStore.commit(mutations)
}

func TestCommitsThatComeDuringASyncShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGateStore()
		var memory sync.Mutex
		j := newJournal(store, &memory)
		go j.run()
		var order []int
		var last *commit
		for i := range 10 {
			last = j.add([]mutation{{remove: &removal{id: 1}}}, func() { order = append(order, i) })
			synctest.Wait()
		}
		store.gate <- nil
		synctest.Wait()
		require.Equal(t, []int{0}, order, "nothing takes effect before it is durable")
		store.gate <- nil
		require.NoError(t, last.wait(t.Context()))
		require.Equal(t, []int{1, 9}, store.sizes)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		j.close()
	})
}

func TestTheFirstErrorOfTheStoreIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGateStore()
		broken := errors.New("disk on fire")
		qs, err := openQueues(Config{}.withDefaults(), store)
		require.NoError(t, err)
		go qs.journal.run()
		first, err := qs.submit(t.Context(), []*pb.QueueMessage{testMessage("q", "1")})
		require.NoError(t, err)
		synctest.Wait()
		second, err := qs.submit(t.Context(), []*pb.QueueMessage{testMessage("q", "2"), testMessage("bad name", "3")})
		require.NoError(t, err)
		store.gate <- broken
		for _, s := range []*sending{first, second} {
			results, err := s.wait(t.Context())
			require.NoError(t, err)
			require.True(t, results[0].IsError)
			require.Equal(t, "broker: write to the store: disk on fire", results[0].Error)
			require.Zero(t, results[0].SentAt)
		}
		require.Equal(t, errQueueName.Error(), second.results[1].Error)
		results, err := qs.send(t.Context(), []*pb.QueueMessage{testMessage("q", "4")})
		require.NoError(t, err)
		require.True(t, results[0].IsError)
		<-qs.journal.failed
		require.ErrorIs(t, qs.journal.failure(), broken)
		c, err := qs.lineUp(t.Context(), want{queue: "q", max: 10})
		require.NoError(t, err)
		require.Empty(t, c.messages, "what is not stored is not delivered")
		qs.journal.close()
	})
}

func TestSendersWaitForRoomInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGateStore()
		qs, err := openQueues(Config{}.withDefaults(), store)
		require.NoError(t, err)
		go qs.journal.run()
		big := testMessage("q", string(make([]byte, maxPendingBytes)))
		_, err = qs.submit(t.Context(), []*pb.QueueMessage{big})
		require.NoError(t, err)
		submitted := make(chan *sending)
		go func() {
			s, _ := qs.submit(t.Context(), []*pb.QueueMessage{testMessage("q", "small")})
			submitted <- s
		}()
		synctest.Wait()
		select {
		case <-submitted:
			t.Fatal("submitted without room")
		default:
		}
		store.gate <- nil
		s := <-submitted
		store.gate <- nil
		_, err = s.wait(t.Context())
		require.NoError(t, err)
		qs.journal.close()
	})
}

// brokenStore fails by itself, as a disk does in background work.
type brokenStore struct {
	*memoryStore
	*fault
}

func (s brokenStore) failed() <-chan struct{} { return s.raised }
func (s brokenStore) failure() error          { return s.err }

func TestAStoreThatFailsByItselfEndsTheBroker(t *testing.T) {
	broken := errors.New("disk on fire")
	store := brokenStore{newMemoryStore(), newFault()}
	b, err := New(Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.startOn(t.Context(), store))
	store.raise(broken)
	<-b.Done()
	require.ErrorIs(t, b.Err(), broken)
	require.ErrorIs(t, b.Stop(), broken)
}
