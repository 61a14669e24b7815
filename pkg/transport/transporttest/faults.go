package transporttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func (s *suite) cutConnection(t *testing.T) {
	t.Helper()
	if s.cut == nil {
		t.Skip("the suite was given no way to cut connections")
	}
	s.survives(t, s.cut)
}

func (s *suite) restarted(t *testing.T) {
	t.Helper()
	if s.restart == nil {
		t.Skip("the suite was given no way to restart the broker")
	}
	s.survives(t, s.restart)
}

// survives checks what a lost connection means: what was held comes back, its
// settlement is refused, the same consumer and subscription go on, and nothing
// that was confirmed is gone.
func (s *suite) survives(t *testing.T, fault func(t *testing.T)) {
	t.Helper()
	s.skipTogether(t)
	tr, queue := s.start(t), queueName()
	const messages = 30
	for i := range messages {
		publish(t, tr, queue, fmt.Sprint("m", i))
	}
	c := consumer(t, tr, queue)
	held := receive(t, c, 5, 5)
	ackAll(t, held[:2])

	fault(t)

	// Lost, or sent into a connection that was not known to be dead yet: then the
	// message is done for this consumer, and acked again if it comes back.
	var back []transport.Delivery
	for _, d := range held[2:] {
		err := d.Ack(t.Context())
		require.Error(t, err)
		if !errors.Is(err, transport.ErrUnconfirmed) {
			require.ErrorIs(t, err, transport.ErrLost)
			back = append(back, d)
		}
	}
	publish(t, tr, queue, "after")
	want := map[string]bool{"after": true}
	for i := range messages {
		want[fmt.Sprint("m", i)] = true
	}
	for _, d := range held {
		delete(want, string(d.Body()))
	}
	lost := make(map[string]bool)
	for _, d := range back {
		lost[string(d.Body())], want[string(d.Body())] = true, true
	}
	for len(want) > 0 {
		for _, d := range receive(t, c, 1, 1) {
			body := string(d.Body())
			require.True(t, want[body], "%s came again after it was acked", body)
			if lost[body] {
				require.True(t, d.Redelivered(), "%s was delivered to this consumer before", body)
			}
			require.NoError(t, d.Ack(t.Context()))
			delete(want, body)
		}
	}
	empty(t, tr, c)
}

// cutWhileIdle: a Receive that waits, and a subscription, go on by themselves.
func (s *suite) cutWhileIdle(t *testing.T) {
	t.Helper()
	if s.cut == nil {
		t.Skip("the suite was given no way to cut connections")
	}
	tr, queue, channel := s.start(t), queueName(), queueName()
	heard := make(chan string, 1000)
	subscription := subscribe(t, tr, channel, heard)
	defer func() { require.NoError(t, subscription.Close()) }()
	c := consumer(t, tr, queue)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan transport.Delivery, 1)
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil && len(got) == 0 {
			if err := c.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: 10 * time.Second},
				func(d transport.Delivery) { got <- d }); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range 3 {
		s.cut(t)
	}
	publish(t, tr, queue, "x")
	require.NoError(t, <-ended)
	require.Len(t, got, 1, "messages received within %s of the cuts", patience)
	require.NoError(t, (<-got).Ack(t.Context()))
	// A subscription misses what is sent while it is away, so send until it hears.
	for len(heard) == 0 {
		require.NoError(t, ctx.Err(), "the subscription did not come back")
		require.NoError(t, tr.Broadcast(ctx, channel, []byte("anyone?"), nil))
		select {
		case text := <-heard:
			heard <- text
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// nothingIsLost settles messages in all ways, from two workers, while connections
// are cut: every message is acked in the end.
func (s *suite) nothingIsLost(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	if s.cut == nil {
		t.Skip("the suite was given no way to cut connections")
	}
	const messages = 200
	queue := queueName()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var (
		mu    sync.Mutex
		acked = make(map[string]int)
		all   sync.WaitGroup
	)
	note := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		if acked[body]++; len(acked) == messages {
			cancel()
		}
	}
	publisher := s.start(t)
	for range 2 {
		c := consumer(t, s.start(t), queue)
		all.Go(func() {
			for ctx.Err() == nil {
				var settling sync.WaitGroup
				err := c.Receive(ctx, transport.ReceiveRequest{Slots: 1 + dice(8), Wait: time.Second}, func(d transport.Delivery) {
					settling.Go(func() { settleAnyhow(ctx, d, note) })
				})
				settling.Wait()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() {
		for i := range messages {
			body := fmt.Append(nil, "m", i)
			for publisher.Publish(ctx, queue, transport.Outgoing{Body: body}) != nil && ctx.Err() == nil {
				continue // not confirmed: again, a duplicate is no loss
			}
			if i%50 == 25 {
				s.cut(t)
			}
		}
	})
	all.Wait()
	require.Len(t, acked, messages, "messages that were seen and acked within %s", patience)
}

// settleAnyhow settles in a way left to chance, and notes the message if its ack
// may have reached the broker.
func settleAnyhow(ctx context.Context, d transport.Delivery, acked func(body string)) {
	switch dice(6) {
	case 0:
		_ = d.Nack(ctx) // whatever comes of it, the message is still there
	case 1:
		_ = d.Requeue(ctx, 0) // the same
	case 2:
		_ = d.Release(ctx) // the same
	default:
		_ = d.Ack(ctx) // an ack that is not proven may have been applied
		acked(string(d.Body()))
	}
}
