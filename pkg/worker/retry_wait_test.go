package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestRetryInHops: a countdown beyond the broker's maximum arrives in hops, once
// per retry, and nothing of it is held here while it waits.
func TestRetryInHops(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Concurrency = 1
		h.broker.capabilities.MaxDelay = 10 * time.Second
		var runs []time.Duration
		begin := time.Now()
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			runs = append(runs, time.Since(begin))
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(34500*time.Millisecond))
		}, tasks.MaxRetries(2))
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		for range 60 { // in between: no slot, no place in memory, no message
			elapse(time.Second + 13*time.Millisecond)
			synctest.Wait()
			if len(seen[TaskReceived](h.recorder)) == len(seen[TaskStarted](h.recorder)) {
				h.broker.mu.Lock()
				require.Zero(t, h.broker.inFlight)
				h.broker.mu.Unlock()
				require.Empty(t, h.worker.parked.places)
			}
		}
		elapse(20 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 34500 * time.Millisecond, 69 * time.Second}, runs)
		require.Equal(t, []time.Duration{10 * time.Second, 10 * time.Second}, h.publishedDelays())
		hop := []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Second}
		require.Equal(t, append(hop, hop...), h.postponedFor(), "each hop is one message")
		require.Len(t, seen[TaskRetried](h.recorder), 2)
		states := h.backend.states(id)
		require.Equal(t, protocol.StateFailure, states[len(states)-1].Status)
	})
}

// publishedDelays are those of the messages that were sent.
func (h *harness) publishedDelays() []time.Duration {
	sent := h.broker.sent()
	delays := make([]time.Duration, 0, len(sent))
	for _, sent := range sent {
		delays = append(delays, sent.message.Delay)
	}
	return delays
}

// postponedFor are the delays with which messages went back.
func (h *harness) postponedFor() []time.Duration {
	postponed := seen[TaskPostponed](h.recorder)
	delays := make([]time.Duration, 0, len(postponed))
	for _, event := range postponed {
		delays = append(delays, event.Delay)
	}
	return delays
}

// TestRetryLearnsTheMaximum: a server that takes less than it was believed to.
func TestRetryLearnsTheMaximum(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Minute))
		}, tasks.MaxRetries(1))
		var learnt atomic.Bool
		h.broker.fail = func(operation string) error {
			if operation == "publish celery" && learnt.CompareAndSwap(false, true) {
				h.broker.capabilities.MaxDelay = 20 * time.Second
				return transport.ErrDelay
			}
			return nil
		}
		h.start()
		h.send(protocol.Message{Task: "t"})
		elapse(61 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{20 * time.Second}, h.publishedDelays())
		require.Equal(t, []time.Duration{20 * time.Second, 20 * time.Second}, h.postponedFor())
		require.Len(t, seen[TaskRetried](h.recorder), 1)
		require.Len(t, seen[TaskFailed](h.recorder), 1)
	})
}

// TestRetryCountdownMax bounds a backoff that has run away.
func TestRetryCountdownMax(t *testing.T) {
	cases := map[string]struct {
		option  func() tasks.RetryOption
		max     time.Duration
		want    time.Duration
		bounded bool
	}{
		"countdown":       {func() tasks.RetryOption { return tasks.Countdown(25 * time.Hour) }, 24 * time.Hour, 24 * time.Hour, true},
		"countdown at it": {func() tasks.RetryOption { return tasks.Countdown(24 * time.Hour) }, 24 * time.Hour, 24 * time.Hour, false},
		"eta":             {func() tasks.RetryOption { return tasks.ETA(time.Now().Add(time.Hour)) }, time.Minute, time.Minute, true},
		"far eta":         {func() tasks.RetryOption { return tasks.ETA(time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)) }, time.Minute, time.Minute, true},
		"off":             {func() tasks.RetryOption { return tasks.Countdown(1000 * time.Hour) }, 0, 1000 * time.Hour, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.RetryCountdownMax = c.max
				h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
					return nil, tasks.Retry(ctx, errBoom, c.option())
				})
				h.start()
				h.send(protocol.Message{Task: "t"})
				synctest.Wait()
				published := h.broker.sent()
				require.Len(h.t, published, 1)
				eta := h.decode(published[0].message.Body).ETA
				require.WithinDuration(h.t, time.Now().Add(c.want), eta, time.Millisecond)
				bounded := seen[RetryBounded](h.recorder)
				require.Equal(h.t, c.bounded, len(bounded) == 1, "%v", bounded)
				if c.bounded {
					require.Equal(h.t, c.max, bounded[0].Max)
					require.Greater(h.t, bounded[0].Asked, c.max)
				}
				require.Equal(h.t, c.want, seen[TaskRetried](h.recorder)[0].Delay)
			})
		})
	}
}

func TestRetryCountdownMaxIsChecked(t *testing.T) {
	h := newHarness(t)
	h.options.RetryCountdownMax = -1
	_, err := New(h.options, h.registry, h.broker, h.backend)
	require.ErrorIs(t, err, ErrOptions)
}

// TestRetryElsewhere: to another queue, with another priority and other headers.
func TestRetryElsewhere(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(0), tasks.RetryQueue("slow"), tasks.RetryPriority(9),
				tasks.RetryHeaders(map[string]any{"baggage": "new", "x-count": 1}))
		})
		h.start()
		h.send(protocol.Message{Task: "t", Priority: 3, CustomHeaders: map[string]any{"baggage": "old", "x-kept": 1.5}})
		synctest.Wait()
		published := h.broker.sent()
		require.Len(t, published, 1)
		require.Equal(t, "slow", published[0].queue)
		require.Equal(t, 9, published[0].message.Priority)
		got := h.decode(published[0].message.Body)
		require.Equal(t, "slow", got.Queue)
		require.Equal(t, 9, got.Priority)
		require.Equal(t, map[string]any{"baggage": "new", "x-count": int64(1), "x-kept": 1.5}, got.CustomHeaders)
	})
}

// TestRetryWhatCannotBeSent is the task's failure, at once.
func TestRetryWhatCannotBeSent(t *testing.T) {
	for name, option := range map[string]tasks.RetryOption{
		"argument": tasks.RetryArgs(make(chan int)),
		"header":   tasks.RetryHeaders(map[string]any{"x": make(chan int)}),
		"eta":      tasks.ETA(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.RetryCountdownMax = 0
				h.options.AcksLate = true
				h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
					return nil, tasks.Retry(ctx, errBoom, option)
				})
				h.start()
				id := h.send(protocol.Message{Task: "t"})
				synctest.Wait()
				states := h.backend.states(id)
				require.Equal(h.t, protocol.StateFailure, states[len(states)-1].Status)
				require.Contains(h.t, h.journal.all(), "ack")
				require.Empty(h.t, h.broker.sent())
			})
		})
	}
}

// TestAutoRetryInTheWorker: until the retries are used up; the failure is the
// handler's own error.
func TestAutoRetryInTheWorker(t *testing.T) {
	inBubble(t, func(h *harness) {
		var runs []time.Duration
		begin := time.Now()
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
			runs = append(runs, time.Since(begin))
			return nil, fmt.Errorf("run %d: %w", len(runs), errBoom)
		}, tasks.AutoRetryFor(tasks.ErrorIs(errBoom)), tasks.RetryBackoff(2), tasks.RetryJitter(false), tasks.RetryBackoffMax(5*time.Second))
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		elapse(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 2 * time.Second, 6 * time.Second, 11 * time.Second}, runs)
		states := h.backend.states(id)
		last := states[len(states)-1]
		require.Equal(t, protocol.StateFailure, last.Status)
		require.Equal(t, []any{"run 4: boom"}, last.Result.(protocol.Exception).Args)
		require.Equal(t, "Traceback (most recent call last):\nException: run 4: boom\n", last.Traceback)
	})
}

// TestAutoRetryIsNoAnswerToAShutdown: a handler that is cut short has not failed.
func TestAutoRetryIsNoAnswerToAShutdown(t *testing.T) {
	for _, retries := range []int{0, 3} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = true
			h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
				<-ctx.Done()
				return nil, errors.New("the driver: context canceled")
			}, tasks.AutoRetryFor(tasks.AnyError))
			h.start()
			h.send(protocol.Message{Task: "t", Retries: retries})
			synctest.Wait()
			h.worker.Cancel()
			synctest.Wait()
			require.Empty(h.t, h.broker.sent())
			require.Contains(h.t, h.journal.all(), "release")
		})
	}
}
