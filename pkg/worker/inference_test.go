package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// ask asks as query_task_sync does.
func (h *rayHarness) ask(timeout time.Duration, name string, args ...any) (answer string, answered bool) {
	h.t.Helper()
	body, err := rayserve.EncodeQuery(rayserve.Query{Name: name, Args: args})
	require.NoError(h.t, err)
	response, answered := h.broker.query("models", body, timeout)
	return string(response), answered
}

func TestInference(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("double", func(_ context.Context, args tasks.Arguments) (any, error) { return 2 * args.Args[0].(int64), nil })
		h.handle("fail", failing(99))
		h.handle("panic", func(context.Context, tasks.Arguments) (any, error) { panic("boom") })
		h.handle("nothing", func(context.Context, tasks.Arguments) (any, error) { return nil, nil })
		h.handle("ignore", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Ignore("no") })
		h.handle("reject", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("not mine", true) })
		h.handle("retry", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errors.New("later"), tasks.MaxRetriesFor(tasks.RetryLimitless))
		})
		h.handle("bytes", func(context.Context, tasks.Arguments) (any, error) { return []byte{1}, nil })
		h.handle("progress", func(ctx context.Context, _ tasks.Arguments) (any, error) { return "ok", tasks.Progress(ctx, 50, "") })
		h.start()
		for name, want := range map[string]string{
			"double":   `{"status": "SUCCESS", "result": 42, "error": null}`,
			"nothing":  `{"status": "SUCCESS", "result": null, "error": null}`,
			"progress": `{"status": "SUCCESS", "result": "ok", "error": null}`,
			"fail":     `{"status": "FAILURE", "result": null, "error": "ValueError: no GPU"}`,
			"retry":    `{"status": "FAILURE", "result": null, "error": "Exception: later"}`,
			"ignore":   `{"status": "SUCCESS", "result": null, "error": null}`,
			"reject":   `{"status": "FAILURE", "result": null, "error": "the task has no result"}`,
			"nobody":   `{"status": "FAILURE", "result": null, "error": "NotRegistered: no task \"nobody\" is registered with the worker"}`,
		} {
			answer, answered := h.ask(time.Second, name, int64(21))
			require.True(t, answered, name)
			require.Equal(t, want, answer, name)
		}
		for name, want := range map[string]string{"panic": "boom", "bytes": "EncodeError: "} {
			answer, answered := h.ask(time.Second, name)
			require.True(t, answered, name)
			require.Contains(t, answer, `{"status": "FAILURE", "result": null, "error": "`, name)
			require.Contains(t, answer, want, name)
		}
		answer, answered := h.broker.query("models", []byte("nonsense"), time.Second)
		require.True(t, answered)
		require.Contains(t, string(answer), `"error": "ValueError: rayserve: malformed message`)
		synctest.Wait() // the observers are told behind the answer
		require.Equal(t, Answered, seen[MessageUnprocessable](h.recorder)[0].Fate)
		require.Equal(t, Answered, seen[TaskUnknown](h.recorder)[0].Fate)
		require.Empty(t, h.broker.sent())
		require.Empty(t, h.broker.waiting("failed"))
		require.Empty(t, h.results.metas, "an inference has no record")
	})
}

// TestInferenceUnknownIsAnswered: there is no other worker that a query could go to.
func TestInferenceUnknownIsAnswered(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.UnknownTask = UnknownRequeue
		h.start()
		answer, answered := h.ask(time.Second, "nobody")
		require.True(t, answered)
		require.Contains(t, answer, `"error": "NotRegistered: no task \"nobody\" is registered`)
		synctest.Wait() // the observers are told behind the answer
		require.Equal(t, []TaskUnknown{{Task: "nobody", ID: seen[TaskUnknown](h.recorder)[0].ID, Queue: "models", Fate: Answered}},
			seen[TaskUnknown](h.recorder))
	})
}

// TestInferenceOfAFailedStart: a query that was answered before another queue's could
// not be leaves no goroutine behind.
func TestInferenceOfAFailedStart(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.Queues = append(h.options.Queues, "others")
		h.options.RayServe["others"] = RayServeQueue{}
		h.handle("double", func(_ context.Context, args tasks.Arguments) (any, error) { return 2 * args.Args[0].(int64), nil })
		h.broker.fail = func(operation string) error {
			if operation != "respond others 2" {
				return nil
			}
			answer, answered := h.ask(time.Second, "double", int64(21))
			require.True(t, answered)
			require.Contains(t, answer, "42")
			return transport.ErrName
		}
		w, err := New(h.options, h.registry, h.broker, h.backend, h.recorder)
		require.NoError(t, err)
		require.ErrorIs(t, w.Start(context.Background()), transport.ErrName)
	})
}

// TestInferenceTimesOut: a handler is told that nobody waits any more.
func TestInferenceTimesOut(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		var cause error
		h.handle("slow", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, cause
		})
		h.start()
		_, answered := h.ask(5*time.Second, "slow")
		require.False(t, answered)
		synctest.Wait()
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		require.Zero(t, h.worker.Load().Busy)
	})
}

// TestInferenceGoesFirst: it waits for a slot ahead of what is queued, and no longer
// than somebody waits for it.
func TestInferenceGoesFirst(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.Concurrency = 1
		h.handle("second", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Second); return "ok", nil })
		h.start()
		for _, id := range []string{"id-1", "id-2", "id-3", "id-4"} {
			h.enqueue(id, "second")
		}
		h.journaled() // the first one runs
		begun := time.Now()
		_, answered := h.ask(500*time.Millisecond, "second")
		require.False(t, answered, "the slot was busy for longer")
		answer, answered := h.ask(10*time.Second, "second")
		require.True(t, answered)
		require.JSONEq(t, `{"status": "SUCCESS", "result": "ok", "error": null}`, answer)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second, "after the first and before the others")
		elapse(10 * time.Second)
		require.Len(t, seen[TaskSucceeded](h.recorder), 5)
	})
}

// TestInferenceAtShutdown: what has begun is answered, what has not is left to others.
func TestInferenceAtShutdown(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.Concurrency = 1
		h.handle("second", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Second); return "ok", nil })
		h.start()
		type outcome struct {
			answer   string
			answered bool
		}
		asked := make(chan outcome, 2)
		for range 2 {
			go func() {
				answer, answered := h.ask(time.Minute, "second")
				asked <- outcome{answer, answered}
			}()
			synctest.Wait()
		}
		require.NoError(t, h.worker.Stop(context.Background()))
		outcomes := []outcome{<-asked, <-asked}
		require.ElementsMatch(t, []outcome{{`{"status": "SUCCESS", "result": "ok", "error": null}`, true}, {"", false}}, outcomes)
	})
}

// TestInferenceCancelledWorker: a cold shutdown leaves nobody waiting.
func TestInferenceCancelledWorker(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("slow", func(ctx context.Context, _ tasks.Arguments) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
		h.start()
		asked := make(chan string, 1)
		go func() {
			answer, _ := h.ask(time.Minute, "slow")
			asked <- answer
		}()
		synctest.Wait()
		h.worker.Cancel()
		require.Contains(t, <-asked, `"status": "FAILURE"`)
	})
}

// TestInferenceRefused: a queue whose queries can't be answered is not served.
func TestInferenceRefused(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.broker.fail = func(operation string) error {
			if operation == "respond models 2" {
				return transport.ErrName
			}
			return nil
		}
		w, err := New(h.options, h.registry, h.broker, h.backend, h.recorder)
		require.NoError(t, err)
		require.ErrorIs(t, w.Start(context.Background()), transport.ErrName)
	})
}
