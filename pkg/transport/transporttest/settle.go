package transporttest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// ack is T-K4: what was acked stays away when the consumer has gone, so an ack is
// proven before it is reported.
func (s *suite) ack(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "a", "b", "c")
	first, err := tr.Consumer(queue)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b", "c"}, drain(t, first, 3, 3))
	require.NoError(t, first.Close())
	empty(t, tr, consumer(t, tr, queue))
}

// ackManyAtOnce holds many deliveries and settles them at the same moment.
func (s *suite) ackManyAtOnce(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	tr, queue := s.start(t), queueName()
	sent := make([]string, 60)
	for i := range sent {
		sent[i] = fmt.Sprint("m", i)
	}
	publish(t, tr, queue, sent...)
	c := consumer(t, tr, queue)
	got := receive(t, c, len(sent), len(sent))
	require.ElementsMatch(t, sent, bodies(got))
	ackAll(t, got)
	require.NoError(t, c.Close())
	empty(t, tr, consumer(t, tr, queue))
}

// ackIsPrompt is T-K3: an ack is not held up by a Receive that waits.
func (s *suite) ackIsPrompt(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	d := one(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for ctx.Err() == nil {
			if c.Receive(ctx, transport.ReceiveRequest{Slots: 4, Wait: 10 * time.Second}, func(transport.Delivery) {}) != nil {
				return
			}
		}
	})
	begun := time.Now()
	require.NoError(t, d.Ack(t.Context()))
	// Behind the poll it would take ten seconds; a busy machine takes one now and then.
	require.Less(t, time.Since(begun), 4*time.Second)
	cancel()
	waiting.Wait()
}

func (s *suite) nack(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	for attempt := 1; attempt <= 3; attempt++ {
		d := one(t, c)
		require.Equal(t, "x", string(d.Body()))
		require.Equal(t, attempt, d.Attempt())
		require.Equal(t, attempt > 1, d.Redelivered())
		if attempt < 3 {
			require.NoError(t, d.Nack(t.Context()))
		} else {
			require.NoError(t, d.Ack(t.Context()))
		}
	}
	empty(t, tr, c)
}

// nackByAnother: the count is the message's, whoever handed it back.
func (s *suite) nackByAnother(t *testing.T) {
	t.Helper()
	queue, workers := queueName(), []transport.Transport{s.start(t), s.start(t)}
	publish(t, workers[0], queue, "x")
	for attempt := 1; attempt <= 4; attempt++ {
		tr := workers[attempt%2]
		c, err := tr.Consumer(queue)
		require.NoError(t, err)
		d := one(t, c)
		require.Equal(t, attempt, d.Attempt())
		require.Equal(t, attempt > 1, d.Redelivered())
		require.NoError(t, d.Nack(t.Context()))
		require.NoError(t, c.Close())
	}
}

// requeue is T-K5: each way back counts as an attempt.
func (s *suite) requeue(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	require.NoError(t, one(t, c).Requeue(t.Context(), 0))
	d := one(t, c)
	require.Equal(t, 2, d.Attempt())
	after := time.Duration(0)
	if tr.Capabilities().DelayTick > 0 {
		after = 2 * time.Second
	}
	begun := time.Now()
	require.NoError(t, d.Requeue(t.Context(), after))
	d = one(t, c)
	require.GreaterOrEqual(t, time.Since(begun), after, "early")
	require.Equal(t, "x", string(d.Body()))
	require.Equal(t, 3, d.Attempt())
	require.True(t, d.Redelivered())
	require.NoError(t, d.Ack(t.Context()))
	empty(t, tr, c)
}

// requeueBeyondMaximum is T-K7: the message waits as long as the broker can and is not
// refused.
func (s *suite) requeueBeyondMaximum(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	requireDelay(t, tr)
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	require.NoError(t, one(t, c).Requeue(t.Context(), tr.Capabilities().MaxDelay+time.Hour))
	empty(t, tr, c)
}

// postpone: what goes with the message stays, and waiting is no attempt.
func (s *suite) postpone(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	require.NoError(t, one(t, c).Requeue(t.Context(), 0))
	after := min(time.Second, tr.Capabilities().MaxDelay)
	begun := time.Now()
	require.NoError(t, one(t, c).Postpone(t.Context(), after))
	d := one(t, c)
	require.GreaterOrEqual(t, time.Since(begun), after, "early")
	require.Equal(t, "x", string(d.Body()))
	require.Equal(t, 2, d.Attempt())
	require.NoError(t, d.Ack(t.Context()))
	require.ErrorIs(t, d.Postpone(t.Context(), 0), transport.ErrSettled)
	empty(t, tr, c)
}

func (s *suite) release(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	require.NoError(t, one(t, c).Nack(t.Context()))
	require.NoError(t, one(t, c).Release(t.Context()))
	d := one(t, c)
	require.Equal(t, "x", string(d.Body()))
	require.Equal(t, 2, d.Attempt(), "a release does not count")
	require.NoError(t, d.Ack(t.Context()))
	empty(t, tr, c)
}

// releaseOneOfMany: others of the same Receive are at work meanwhile. Where a Get
// waits for its number, the broker may keep what comes back until they are done.
func (s *suite) releaseOneOfMany(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "a", "b", "c")
	c := consumer(t, tr, queue)
	got := receive(t, c, 3, 3)
	require.NoError(t, got[1].Release(t.Context()))
	rest := []transport.Delivery{got[0], got[2]}
	if tr.Capabilities().MinWait > 0 {
		ackAll(t, rest)
	} else {
		defer ackAll(t, rest)
	}
	again := one(t, consumer(t, s.start(t), queue))
	require.Equal(t, string(got[1].Body()), string(again.Body()))
	require.Equal(t, 1, again.Attempt())
	require.NoError(t, again.Ack(t.Context()))
	empty(t, tr, c)
}

// deadLetter is T-K5: what is given up is in the queue of dead letters.
func (s *suite) deadLetter(t *testing.T) {
	t.Helper()
	tr, queue, letters := s.start(t), queueName(), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	require.NoError(t, one(t, c).DeadLetter(t.Context(), transport.DeadLetter{
		Queue: letters, Reason: "undecodable", Detail: "broken \xff text " + strings.Repeat("long ", 2000),
	}))
	empty(t, tr, c)
	d := one(t, consumer(t, tr, letters))
	require.Equal(t, "x", string(d.Body()))
	require.NoError(t, d.Ack(t.Context()))
}

// failedSettlementLeavesDeliveryOpen: where nothing was done, another way must
// remain.
func (s *suite) failedSettlementLeavesDeliveryOpen(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	d := one(t, c)
	require.ErrorIs(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: "..."}), transport.ErrName)
	require.NoError(t, d.Ack(t.Context()))
	empty(t, tr, c)
}

func (s *suite) settledOnce(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	settle := map[string]func(d transport.Delivery) error{
		"ack":     func(d transport.Delivery) error { return d.Ack(t.Context()) },
		"nack":    func(d transport.Delivery) error { return d.Nack(t.Context()) },
		"release": func(d transport.Delivery) error { return d.Release(t.Context()) },
	}
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	d := one(t, c)
	var done atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := d.Ack(t.Context()); err == nil {
				done.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, done.Load())
	for name, again := range settle {
		require.ErrorIs(t, again(d), transport.ErrSettled, name)
	}
	empty(t, tr, c)
}

// copiesAfterAck: a message that was acked early may come back once, as a copy.
func (s *suite) copiesAfterAck(t *testing.T) {
	t.Helper()
	tr, queue, letters := s.start(t), queueName(), queueName()
	publish(t, tr, queue, "x")
	c := consumer(t, tr, queue)
	d := one(t, c)
	require.NoError(t, d.Ack(t.Context()))
	require.NoError(t, d.Requeue(t.Context(), 0))
	require.ErrorIs(t, d.Requeue(t.Context(), 0), transport.ErrSettled)
	d = one(t, c)
	require.Equal(t, "x", string(d.Body()))
	require.Equal(t, 2, d.Attempt())
	require.NoError(t, d.Ack(t.Context()))
	require.NoError(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: letters, Reason: "test"}))
	require.ErrorIs(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: letters, Reason: "test"}), transport.ErrSettled)
	empty(t, tr, c)
	require.Equal(t, []string{"x"}, drain(t, consumer(t, tr, letters), 1, 1))
}

func (s *suite) skipTogether(t *testing.T) {
	t.Helper()
	if s.together != "" {
		t.Skip(s.together)
	}
}
