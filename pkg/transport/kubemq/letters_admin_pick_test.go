package kubemq

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// picked lists what is in the channel dead; wanted says which of it to want.
func picked(t *testing.T, c *Client, wanted func(i int) bool) (picks []Pick) {
	t.Helper()
	require.NoError(t, c.Scan(t.Context(), "dead", true, func(m *pb.QueueMessage) {
		picks = append(picks, PickOf(m, wanted(len(picks))))
	}))
	return picks
}

// numbers are the bodies that filled sends, those that keep says.
func numbers(count int, keep func(i int) bool) (texts []string) {
	for i := range count {
		if keep(i) {
			texts = append(texts, strconv.Itoa(i))
		}
	}
	return texts
}

// TestPickLeavesTheRestInOrder: what is wanted is used in its order and removed, all
// else stays, in its order and as often delivered as before.
func TestPickLeavesTheRestInOrder(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c := dialed(t, address)
		const count = 5 * moveBatch
		filled(t, c, count, 0)
		third := func(i int) bool { return i%3 == 1 && i < count-10 }
		var used []string
		use := func(_ context.Context, m *pb.QueueMessage) error {
			used = append(used, string(m.Body))
			return nil
		}
		require.NoError(t, c.Pick(t.Context(), "dead", picked(t, c, third), use))
		require.Equal(t, numbers(count, third), used)

		rest := func(i int) bool { return !third(i) }
		require.NoError(t, c.Scan(t.Context(), "dead", true, func(m *pb.QueueMessage) {
			require.EqualValues(t, 1, m.Attributes.GetReceiveCount())
		}))
		require.Equal(t, numbers(count, rest), bodies(t, c, "dead"))

		none := func(int) bool { return false }
		require.NoError(t, c.Pick(t.Context(), "dead", picked(t, c, none), use))
		all := func(int) bool { return true }
		require.NoError(t, c.Pick(t.Context(), "dead", picked(t, c, all), use))
		require.Len(t, used, count)
		require.Empty(t, bodies(t, c, "dead"))
	})
}

// TestPickInSeveralAnswers: the embedded broker bounds an answer to 4 MB.
func TestPickInSeveralAnswers(t *testing.T) {
	t.Parallel()
	c := dialed(t, startBroker(t, broker.Config{}).addr())
	const count = 60
	filled(t, c, count, 300_000)
	odd := func(i int) bool { return i%2 == 1 }
	used := 0
	require.NoError(t, c.Pick(t.Context(), "dead", picked(t, c, odd), func(context.Context, *pb.QueueMessage) error {
		used++
		return nil
	}))
	require.Equal(t, count/2, used)
	left := bodies(t, c, "dead")
	require.Len(t, left, count/2)
	require.True(t, slices.IsSortedFunc(left, func(a, b string) int { return number(t, a) - number(t, b) }))
}

func number(t *testing.T, body string) int {
	t.Helper()
	n, err := strconv.Atoi(body[:len(body)-300_000])
	require.NoError(t, err)
	return n
}

// TestPickStealsNothing: where somebody else has taken the oldest message, or put it
// back at the end, everything stays where it is.
func TestPickStealsNothing(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		tr := started(t, Config{Address: address, Strategy: StrategySingle})
		c := dialed(t, address)
		filled(t, c, 5, 0)
		picks := picked(t, c, func(i int) bool { return i < 3 })
		busy := opened(t, tr, "dead")
		require.NoError(t, received(t, busy, 1)[0].Nack(t.Context()))
		require.NoError(t, busy.Close())

		never := func(context.Context, *pb.QueueMessage) error {
			t.Error("used what was not expected")
			return nil
		}
		require.ErrorIs(t, c.Pick(t.Context(), "dead", picks, never), ErrNotTaken)
		require.Equal(t, []string{"1", "2", "3", "4", "0"}, bodies(t, c, "dead"))
	})
}

func TestPickOfWhatIsGone(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c := dialed(t, address)
		filled(t, c, 2, 0)
		picks := picked(t, c, func(int) bool { return true })
		_, err := c.Purge(t.Context(), "dead")
		require.NoError(t, err)
		require.ErrorIs(t, c.Pick(t.Context(), "dead", picks, nil), ErrNotTaken)
	})
}

// TestPickRemovesOnlyWhatWasUsed: where use fails, the ones before it are removed.
func TestPickRemovesOnlyWhatWasUsed(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c := dialed(t, address)
		filled(t, c, 5, 0)
		failure := errors.New("no")
		err := c.Pick(t.Context(), "dead", picked(t, c, func(int) bool { return true }), func(_ context.Context, m *pb.QueueMessage) error {
			if string(m.Body) == "2" {
				return failure
			}
			return nil
		})
		require.ErrorIs(t, err, failure)
		require.Equal(t, []string{"2", "3", "4"}, bodies(t, c, "dead"))
	})
}

// TestPickUsesBeforeItRemoves: no message is removed before its use has returned,
// and none stays unremoved for more than a batch of uses.
func TestPickUsesBeforeItRemoves(t *testing.T) {
	t.Parallel()
	const count = 2*moveBatch + 1
	messages := make([]*pb.QueueMessage, count)
	picks := make([]Pick, count)
	for i := range messages {
		messages[i] = message(strconv.Itoa(i), uint64(i+1))
		picks[i] = PickOf(messages[i], true)
	}
	fake := &fakeServer{downstream: holding(messages...)}
	used := 0
	require.NoError(t, dialed(t, fake.serve(t)).Pick(t.Context(), "dead", picks, func(context.Context, *pb.QueueMessage) error {
		acked := 0
		for _, request := range fake.of(pb.QueuesDownstreamRequestType_AckRange) {
			acked += len(request.SequenceRange)
		}
		require.LessOrEqual(t, acked, used)
		require.Less(t, used-acked, moveBatch)
		used++
		return nil
	}))
	require.Equal(t, count, used)
	require.Len(t, fake.of(pb.QueuesDownstreamRequestType_AckRange), 3)
}

// TestPickTellsOfDuplicates: what was used and could not be removed is there twice.
func TestPickTellsOfDuplicates(t *testing.T) {
	t.Parallel()
	hold := holding(message("a", 1))
	fake := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_AckRange {
			answer(&pb.QueuesDownstreamResponse{IsError: true, Error: "cannot ack messages with closed response "})
			return
		}
		hold(request, answer)
	}}
	err := dialed(t, fake.serve(t)).Pick(t.Context(), "dead", []Pick{PickOf(message("a", 1), true)},
		func(context.Context, *pb.QueueMessage) error { return nil })
	require.ErrorIs(t, err, transport.ErrLost)
	require.ErrorContains(t, err, `1 used messages may still be in channel "dead"`)
}

func TestPage(t *testing.T) {
	t.Parallel()
	const half = pageBytes / 2
	require.Equal(t, 2, page([]Pick{{Size: half}, {Size: half}, {Size: 1}}))
	require.Equal(t, 1, page([]Pick{{Size: 2 * pageBytes}, {Size: 1}}))
	require.Equal(t, 2, page([]Pick{{Size: 1}, {Size: 1}}))
}
