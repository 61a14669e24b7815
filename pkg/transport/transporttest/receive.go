package transporttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func (s *suite) slotsNeverExceeded(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	const messages = 20
	for i := range messages {
		publish(t, tr, queue, fmt.Sprint("m", i))
	}
	c := consumer(t, tr, queue)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var done int
	for done < messages && ctx.Err() == nil {
		slots := 1 + dice(7)
		var got []transport.Delivery
		running := 0
		require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: slots, Wait: time.Second}, func(d transport.Delivery) {
			running++
			got = append(got, d)
			require.Equal(t, len(got), running)
		}))
		require.LessOrEqual(t, len(got), slots)
		ackAll(t, got)
		done += len(got)
	}
	require.Equal(t, messages, done)
	require.Error(t, c.Receive(ctx, transport.ReceiveRequest{}, func(transport.Delivery) {}), "no slots")
}

func dice(n int) int {
	return rand.IntN(n) //nolint:gosec // nothing to guess
}

// waitingReceiveGetsMessage: a message reaches a Receive that waits for it at once.
func (s *suite) waitingReceiveGetsMessage(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	c := consumer(t, tr, queue)
	asked := make(chan transport.Delivery, 1)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waiting.Go(func() {
		for len(asked) == 0 && ctx.Err() == nil {
			if err := c.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: 5 * time.Second},
				func(d transport.Delivery) { asked <- d }); err != nil {
				return
			}
		}
	})
	begun := time.Now()
	publish(t, tr, queue, "x")
	waiting.Wait()
	require.Len(t, asked, 1, "messages received within %s", patience)
	// At the end of its wait it would be five; a busy machine takes one now and then.
	require.Less(t, time.Since(begun), 4500*time.Millisecond)
	require.NoError(t, (<-asked).Ack(t.Context()))
}

// cancelEndsReceive: with nothing to receive, a cancelled Receive ends soon and
// without an error.
func (s *suite) cancelEndsReceive(t *testing.T) {
	t.Helper()
	c := consumer(t, s.start(t), queueName())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	begun := time.Now()
	require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: 4, Wait: 30 * time.Second}, func(transport.Delivery) {
		t.Error("a message from an empty queue")
	}))
	require.Less(t, time.Since(begun), time.Second)
}

// cancelLosesNothing cancels some hundred Receives at random moments while
// messages come in.
func (s *suite) cancelLosesNothing(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	const messages, cancels = 150, 400
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := range messages {
			if err := tr.Publish(t.Context(), queue, transport.Outgoing{Body: fmt.Append(nil, "m", i)}); err != nil {
				t.Error(err)
			}
		}
	})
	c := consumer(t, tr, queue)
	acked := make(map[string]int)
	ask := func(ctx context.Context, slots int) {
		var got []transport.Delivery
		require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: slots, Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
		require.LessOrEqual(t, len(got), slots)
		ackAll(t, got) //nolint:contextcheck // what was received is settled, whatever ended the Receive
		for _, d := range got {
			acked[string(d.Body())]++
		}
	}
	for range cancels {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(dice(8))*time.Millisecond)
		ask(ctx, 1+dice(4))
		cancel()
	}
	publishing.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(acked) < messages && ctx.Err() == nil {
		ask(ctx, 8)
	}
	require.Len(t, acked, messages)
}

// closeGivesBack: what a consumer held goes back to the queue, and its own
// settlements come too late.
func (s *suite) closeGivesBack(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "a", "b", "c")
	first, err := tr.Consumer(queue)
	require.NoError(t, err)
	held := receive(t, first, 3, 3)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time")
	require.ErrorIs(t, held[0].Ack(t.Context()), transport.ErrLost)
	require.ElementsMatch(t, []string{"a", "b", "c"}, drain(t, consumer(t, s.start(t), queue), 3, 1))
}

func (s *suite) closeEndsReceive(t *testing.T) {
	t.Helper()
	c := consumer(t, s.start(t), queueName())
	ended := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		for {
			err := c.Receive(t.Context(), transport.ReceiveRequest{Slots: 2, Wait: 30 * time.Second}, func(transport.Delivery) {})
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	<-started
	require.NoError(t, c.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, transport.ErrStopped)
	case <-time.After(patience):
		t.Fatal("Receive goes on after Close")
	}
}

// noHostages is T-K1: a worker that is busy with one message, and had room for more when
// it asked, keeps none of the later ones from another worker. A broker that makes a
// Get wait may leave a message with the busy worker when no other Get happens to
// wait, so there a busy machine has more than one try.
func (s *suite) noHostages(t *testing.T) {
	t.Helper()
	s.skipTogether(t)
	tries := 1
	if s.start(t).Capabilities().MinWait > 0 {
		tries = 3
	}
	for range tries {
		if s.free(t) {
			return
		}
	}
	t.Fatal("messages wait for the end of a long task that another worker has")
}

// free tells whether five messages reach an idle worker while another is busy.
func (s *suite) free(t *testing.T) bool {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "long")
	busy := consumer(t, tr, queue)
	var long transport.Delivery
	for end := time.Now().Add(patience); long == nil && time.Now().Before(end); {
		require.NoError(t, busy.Receive(t.Context(), transport.ReceiveRequest{Slots: 8, Wait: time.Second},
			func(d transport.Delivery) { long = d }))
	}
	require.NotNil(t, long)
	idle := consumer(t, s.start(t), queue)
	want := []string{"1", "2", "3", "4", "5"}
	publish(t, tr, queue, want...)
	// Hostages are held until the long task ends, which is after this.
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var got []transport.Delivery
	for len(got) < len(want) && ctx.Err() == nil {
		require.NoError(t, idle.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
	}
	ackAll(t, append(got, long))
	require.Subset(t, want, bodies(got))
	return len(got) == len(want)
}

// noDoubleWork is T-K8: without a failure a consumer is handed each message once,
// also when it keeps many at work and settles them one by one.
func (s *suite) noDoubleWork(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	const slots = 8
	messages := 200
	if tr.Capabilities().MinWait > 0 {
		messages = 50 // such a broker parks messages, which takes its time
	}
	for i := range messages {
		publish(t, tr, queue, fmt.Sprint("m", i))
	}
	times := make(map[string]int)
	for _, body := range drain(t, consumer(t, tr, queue), messages, slots) {
		times[body]++
	}
	require.Len(t, times, messages, "messages that came more than once: %d", messages-len(times))
}

func (s *suite) stopIsFinal(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	publish(t, tr, queue, "x")
	c, err := tr.Consumer(queue)
	require.NoError(t, err)
	d := one(t, c)
	require.NoError(t, tr.Stop())
	require.NoError(t, tr.Stop(), "a second time")
	require.ErrorIs(t, d.Ack(t.Context()), transport.ErrLost)
	require.ErrorIs(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("x")}), transport.ErrStopped)
	require.ErrorIs(t, c.Receive(t.Context(), transport.ReceiveRequest{Slots: 1}, func(transport.Delivery) {}), transport.ErrStopped)
	_, err = tr.Consumer(queue)
	require.ErrorIs(t, err, transport.ErrStopped)
}
