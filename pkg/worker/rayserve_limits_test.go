package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestRayServeFailureStays: the failure that was stored is not replaced when its message
// comes once more because it could not be put aside. The handler doesn't run again, and
// the hook is told of that failure, once.
func TestRayServeFailureStays(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		failures := 1
		h.broker.fail = func(operation string) error {
			if operation == "dead-letter failed max-attempts" && failures > 0 {
				failures--
				return errors.New("away")
			}
			return nil
		}
		h.handle("predict", failing(99))
		h.enqueue("id-1", "predict")
		h.start()
		elapse(2 * requeueMax)
		h.journaled()
		require.Len(t, seen[TaskStarted](h.recorder), 3)
		require.Contains(t, h.record("id-1"), `"error": "ValueError: no GPU"`)
		require.Equal(t, []string{"id-1: delivered 3 times, the limit is 3: ValueError: no GPU"}, h.letters.told)
		require.Len(t, h.broker.waiting("failed"), 1)
	})
}

// TestRayServeFailureStaysAfterCrash: so it is where the worker died after it had stored
// the failure.
func TestRayServeFailureStaysAfterCrash(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", failing(0))
		h.enqueue("id-1", "predict")
		message := h.broker.waiting("models")[0]
		message.attempts, message.starts = 2, 1 // the third delivery was started, and is the fourth now
		failure := meta("id-1", protocol.StateFailure)
		failure.Result = protocol.Exception{Type: "ValueError", Args: []any{"no GPU"}}
		require.NoError(t, h.results.Store(context.Background(), failure, results.StoreOptions{}))
		h.start()
		h.journaled()
		require.Empty(t, seen[TaskStarted](h.recorder))
		require.Contains(t, h.record("id-1"), `"error": "ValueError: no GPU"`)
		require.Equal(t, []string{"id-1: Worker exited prematurely: delivered 3 times, the limit is 3: ValueError: no GPU"}, h.letters.told)
		require.Len(t, h.broker.waiting("failed"), 1)
	})
}

// TestRayServeReplayAfterFailure: a task that somebody puts back to work runs, whatever
// failure is stored for it.
func TestRayServeReplayAfterFailure(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", failing(3))
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		require.Equal(t, protocol.StateFailure, h.state("id-1").Status)
		h.broker.put("models", &fakeMessage{body: h.broker.waiting("failed")[0].body})
		h.journaled()
		require.Equal(t, protocol.StateSuccess, h.state("id-1").Status)
	})
}

// TestRayServeProducersLimitAndCrashes: a message that takes its worker down ends where
// its producer's limit says, also where the worker has none of its own.
func TestRayServeProducersLimitAndCrashes(t *testing.T) {
	inRayBubble(t, RayServeQueue{}, func(h *rayHarness) {
		h.handle("predict", failing(0))
		body, err := rayserve.EncodeTask(rayserve.Task{ID: "id-1", Name: "predict"})
		require.NoError(t, err)
		h.broker.put("models", &fakeMessage{body: body, limit: 2, limitQueue: "producers", starts: 2})
		h.start()
		h.journaled()
		require.Empty(t, seen[TaskStarted](h.recorder))
		require.Len(t, h.broker.waiting("producers"), 1)
		require.Contains(t, h.record("id-1"), `"error": "WorkerLostError: `)
	})
}

// TestRayServeUnknownHere: a task that is left to the other workers of its queue is not
// handed on so often that none of them may run it.
func TestRayServeUnknownHere(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.UnknownTask, h.options.UnknownAttempts = UnknownRequeue, 10
		h.enqueue("id-1", "nobody")
		h.start()
		elapse(time.Hour)
		require.Equal(t, 3, h.broker.waiting("odd")[0].attempts)
		require.Contains(t, h.record("id-1"), `"error": "NotRegistered: `)
	})
}

// TestRayServeShortCountdown: a handler that wants its message again at once, for ever,
// doesn't keep worker and broker busy with it.
func TestRayServeShortCountdown(t *testing.T) {
	inRayBubble(t, RayServeQueue{}, func(h *rayHarness) {
		runs := 0
		h.handle("predict", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			runs++
			return nil, tasks.Retry(ctx, errors.New("busy"), tasks.Countdown(time.Millisecond))
		}, tasks.RetryForever())
		h.enqueue("id-1", "predict")
		h.start()
		elapse(10 * time.Minute)
		require.Less(t, runs, redeliverAtOnce+20)
		require.Greater(t, runs, redeliverAtOnce)
	})
}

// TestRayServeAutoAck is Celery's: a Ray Serve task is tried as often as it may be, and
// isn't lost with its worker.
func TestRayServeAutoAck(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.AutoAck, h.options.Queues = true, []string{"models"}
		h.handle("predict", failing(99))
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		require.False(t, h.broker.autoAcked)
		require.Len(t, seen[TaskStarted](h.recorder), 3)
		require.Len(t, h.letters.told, 1)
	})
}

// TestRayServeDroppedOnceAcked: a bad message whose ack failed is not told as dropped.
func TestRayServeDroppedOnceAcked(t *testing.T) {
	for fate, err := range map[Fate]error{HandedBack: transport.ErrLost, Dropped: transport.ErrUnconfirmed} {
		inRayBubble(t, RayServeQueue{}, func(h *rayHarness) {
			h.broker.fail = func(operation string) error {
				if operation == "ack" {
					return err
				}
				return nil
			}
			h.broker.put("models", &fakeMessage{body: []byte("{")})
			h.start()
			h.journaled()
			require.Equal(t, fate, seen[MessageUnprocessable](h.recorder)[0].Fate)
		})
	}
}
