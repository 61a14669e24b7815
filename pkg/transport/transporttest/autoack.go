package transporttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// acked receives n messages that the broker acks as it hands them over.
func acked(t *testing.T, c transport.Consumer, n int) []transport.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []transport.Delivery
	for len(got) < n && ctx.Err() == nil {
		request := transport.ReceiveRequest{Slots: n - len(got), Wait: time.Second, AutoAck: true}
		before := len(got)
		require.NoError(t, c.Receive(ctx, request, func(d transport.Delivery) { got = append(got, d) }))
		require.LessOrEqual(t, len(got)-before, request.Slots, "more than there are slots")
	}
	require.Len(t, got, n, "messages received within %s", patience)
	return got
}

// autoAck: what was handed over is gone from the queue, settled or not.
func (s *suite) autoAck(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "a", "b", "c")
	c, err := tr.Consumer(queue)
	require.NoError(t, err)
	got := acked(t, c, 3)
	require.ElementsMatch(t, []string{"a", "b", "c"}, bodies(got))
	require.NoError(t, got[0].Ack(t.Context()))
	require.ErrorIs(t, got[0].Ack(t.Context()), transport.ErrSettled)
	require.NoError(t, c.Close())
	empty(t, tr, consumer(t, tr, queue))
}

// autoAckGivesBack: each way to give a message back sends it anew.
func (s *suite) autoAckGivesBack(t *testing.T) {
	t.Helper()
	tr, queue, letters := s.start(t), queueName(), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	for attempt, give := range []func(d transport.Delivery) error{
		func(d transport.Delivery) error { return d.Nack(t.Context()) },
		func(d transport.Delivery) error { return d.Requeue(t.Context(), 0) },
		func(d transport.Delivery) error { return d.Release(t.Context()) },
	} {
		d := acked(t, c, 1)[0]
		require.Equal(t, attempt+1, d.Attempt())
		require.NoError(t, give(d))
		require.ErrorIs(t, d.Ack(t.Context()), transport.ErrSettled)
	}
	d := acked(t, c, 1)[0]
	require.Equal(t, 3, d.Attempt(), "a release does not count")
	require.NoError(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: letters, Reason: "test"}))
	require.Equal(t, []string{"x"}, drain(t, consumer(t, tr, letters), 1, 1))
}

// autoAckCancelLosesNothing: what comes for a Receive that has ended goes back to the
// queue, although the broker has acked it.
func (s *suite) autoAckCancelLosesNothing(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	sent := make([]string, 20)
	c, err := tr.Consumer(queue)
	require.NoError(t, err)
	var got []string
	deliver := func(d transport.Delivery) { got = append(got, string(d.Body())) }
	for i := range sent {
		sent[i] = fmt.Sprint("m", i)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // somewhere around the arrival of the message
			defer cancel()
			_ = tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte(sent[i])})
		}()
		require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: 4, Wait: 10 * time.Second, AutoAck: true}, deliver))
	}
	require.NoError(t, c.Close())
	again := consumer(t, tr, queue)
	got = append(got, drain(t, again, len(sent)-len(got), 4)...)
	require.ElementsMatch(t, sent, got)
	empty(t, tr, again)
}
