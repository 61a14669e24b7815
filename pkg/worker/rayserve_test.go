package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// callersBackend is a fake that callers read and write, too: as on a real one, the
// first of SUCCESS and CANCELLED stays.
type callersBackend struct {
	*fakeBackend
	fetchFails bool
}

func (b *callersBackend) Store(ctx context.Context, m protocol.Meta, o results.StoreOptions) error {
	if last, err := b.last(m.TaskID); err == nil &&
		(last.Status == protocol.StateRevoked || last.Status == protocol.StateSuccess) {
		b.journal.add("store %s kept", last.Status)
		return nil
	}
	return b.fakeBackend.Store(ctx, m, o)
}

func (b *callersBackend) Fetch(_ context.Context, id string) (protocol.Meta, error) {
	if b.fetchFails {
		return protocol.Meta{}, errors.New("away")
	}
	return b.last(id)
}

func (b *callersBackend) last(id string) (protocol.Meta, error) {
	states := b.states(id)
	if len(states) == 0 {
		return protocol.Meta{}, results.ErrNotFound
	}
	return states[len(states)-1], nil
}

// rayHarness is a worker that serves "models" in Ray Serve's protocol and "celery" in
// Celery's.
type rayHarness struct {
	*harness
	results *callersBackend
	letters *letterHook
}

func inRayBubble(t *testing.T, queue RayServeQueue, test func(h *rayHarness)) {
	t.Helper()
	inBubble(t, func(base *harness) {
		h := &rayHarness{harness: base, results: &callersBackend{fakeBackend: newFakeBackend(base.journal)}, letters: &letterHook{}}
		queue.Backend = h.results
		h.options.Queues = []string{"models", "celery"}
		h.options.RayServe = map[string]RayServeQueue{"models": queue}
		h.registry.AddHook(h.letters)
		test(h)
	})
}

// enqueue does what the adapter's producers do.
func (h *rayHarness) enqueue(id, name string, args ...any) {
	h.t.Helper()
	require.NoError(h.t, h.results.Store(context.Background(), meta(id, protocol.StatePending), results.StoreOptions{}))
	body, err := rayserve.EncodeTask(rayserve.Task{ID: id, Name: name, Args: args, CreatedAt: "2026-11-29T10:00:00+00:00"})
	require.NoError(h.t, err)
	h.broker.put("models", &fakeMessage{body: body})
}

func (h *rayHarness) state(id string) protocol.Meta {
	h.t.Helper()
	m, err := h.results.last(id)
	require.NoError(h.t, err)
	return m
}

// record is what a caller reads.
func (h *rayHarness) record(id string) string {
	h.t.Helper()
	body, err := rayserve.EncodeResult(h.state(id), time.Now())
	require.NoError(h.t, err)
	return string(body)
}

// journaled are the lines about messages and results.
func (h *rayHarness) journaled() []string {
	elapse(5 * contendedPause) // two queues with nothing to do pass the slots to and fro
	synctest.Wait()
	var lines []string
	for _, line := range h.journal.all() {
		if line != "receive models" && line != "receive celery" {
			lines = append(lines, line)
		}
	}
	return lines
}

// failing fails so many times, then succeeds.
func failing(times int) tasks.HandlerFunc {
	var mu sync.Mutex
	return func(_ context.Context, args tasks.Arguments) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if times--; times >= 0 {
			return nil, tasks.NewPythonError("builtins", "ValueError", "no GPU")
		}
		return args.Args, nil
	}
}

var threeTimes = RayServeQueue{MaxRetries: 3, FailedTaskQueue: "failed", UnprocessableTaskQueue: "odd"}

func TestRayServeTransientFailure(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		var seenRequests []tasks.Request
		inner := failing(2)
		h.handle("predict", func(ctx context.Context, args tasks.Arguments) (any, error) {
			request, _ := tasks.RequestFrom(ctx)
			seenRequests = append(seenRequests, *request)
			return inner(ctx, args)
		})
		h.enqueue("id-1", "predict", int64(7))
		h.start()
		require.Equal(t, []string{
			"store PENDING", "respond models 2",
			"note start", "worker.TaskStarted", "worker.TaskRetried", "nack",
			"note start", "worker.TaskStarted", "worker.TaskRetried", "nack",
			"note start", "worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded", "ack",
		}, h.journaled())
		require.Equal(t, []any{int64(7)}, h.state("id-1").Result)
		require.Equal(t, "2026-11-29T10:00:00+00:00", h.state("id-1").Extra[rayserve.ExtraCreatedAt])
		require.Empty(t, h.letters.told)
		require.Empty(t, seen[NoRetryCeiling](h.recorder))
		for i, request := range seenRequests {
			require.Equal(t, i+1, request.Attempt)
			require.Equal(t, i, request.Retries)
			require.Equal(t, 2, request.MaxRetries)
		}
	})
}

func TestRayServePermanentFailure(t *testing.T) {
	for name, panics := range map[string]bool{"told": false, "panics": true} {
		t.Run(name, func(t *testing.T) {
			inRayBubble(t, threeTimes, func(h *rayHarness) {
				h.letters.panics = panics
				h.handle("predict", failing(99))
				h.enqueue("id-1", "predict")
				h.start()
				lines := h.journaled()
				require.Equal(t, []string{
					"note start", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "worker.TaskRejected",
					"dead-letter failed max-attempts",
				}, lines[len(lines)-6:])
				require.Contains(t, h.record("id-1"), `"error": "ValueError: no GPU"`)
				require.Equal(t, []string{"id-1: delivered 3 times, the limit is 3: ValueError: no GPU"}, h.letters.told)
				require.Len(t, h.broker.waiting("failed"), 1)
				require.Empty(t, h.broker.waiting("models"))
				require.Len(t, seen[HookPanicked](h.recorder), map[bool]int{true: 1}[panics])
				require.Len(t, seen[DeadLettered](h.recorder), 1)
			})
		})
	}
}

// TestRayServeProducersLimit: the smaller of the two limits holds, and the producer's
// queue goes with it.
func TestRayServeProducersLimit(t *testing.T) {
	inRayBubble(t, RayServeQueue{MaxRetries: 9, FailedTaskQueue: "failed"}, func(h *rayHarness) {
		h.handle("predict", failing(99))
		body, err := rayserve.EncodeTask(rayserve.Task{ID: "id-1", Name: "predict"})
		require.NoError(t, err)
		h.broker.put("models", &fakeMessage{body: body, limit: 2, limitQueue: "producers"})
		h.start()
		h.journaled()
		require.Len(t, h.broker.waiting("producers"), 1)
		require.Equal(t, 2, h.broker.waiting("producers")[0].attempts)
	})
}

// TestRayServeWithoutCeiling: a task that fails comes again for ever, told once at the
// start, and doesn't spin.
func TestRayServeWithoutCeiling(t *testing.T) {
	for _, queue := range []RayServeQueue{{}, {MaxRetries: 3}, {FailedTaskQueue: "failed"}} {
		inRayBubble(t, queue, func(h *rayHarness) {
			h.handle("predict", failing(15))
			h.enqueue("id-1", "predict")
			h.start()
			elapse(time.Hour)
			require.Equal(t, protocol.StateSuccess, h.state("id-1").Status)
			require.Equal(t, []NoRetryCeiling{{Queue: "models"}}, seen[NoRetryCeiling](h.recorder))
			nacks, requeues := 0, 0
			for _, line := range h.journaled() {
				switch {
				case line == "nack":
					nacks++
				case len(line) > 7 && line[:7] == "requeue":
					requeues++
				}
			}
			require.Equal(t, [2]int{redeliverAtOnce, 5}, [2]int{nacks, requeues})
		})
	}
}

func TestRayServeMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		stored string
	}{
		"not JSON":     {body: "{"},
		"not UTF-8":    {body: "\xff\xfe"},
		"a list":       {body: "[]"},
		"no name":      {body: `{"task_id": "id-1", "args": []}`, stored: "id-1"},
		"args a map":   {body: `{"task_id": "id-1", "task_name": "predict", "args": {}}`, stored: "id-1"},
		"kwargs a row": {body: `{"task_id": "id-1", "task_name": "predict", "kwargs": []}`, stored: "id-1"},
	} {
		for _, kept := range []string{"odd", ""} {
			t.Run(fmt.Sprintf("%s, kept in %q", name, kept), func(t *testing.T) {
				inRayBubble(t, RayServeQueue{UnprocessableTaskQueue: kept}, func(h *rayHarness) {
					h.handle("predict", failing(0))
					h.broker.put("models", &fakeMessage{body: []byte(c.body)})
					h.enqueue("id-2", "predict")
					h.start()
					h.journaled()
					require.Equal(t, protocol.StateSuccess, h.state("id-2").Status, "the queue goes on")
					odd := seen[MessageUnprocessable](h.recorder)
					require.Len(t, odd, 1)
					require.Equal(t, kept, odd[0].KeptIn)
					require.Equal(t, map[bool]Fate{true: Kept, false: Dropped}[kept != ""], odd[0].Fate)
					require.Equal(t, reasonMalformed, odd[0].Reason)
					if kept != "" {
						require.Len(t, h.broker.waiting(kept), 1)
						require.Equal(t, c.body, string(h.broker.waiting(kept)[0].body))
					}
					if c.stored != "" {
						require.Equal(t, protocol.StateFailure, h.state(c.stored).Status)
						require.Contains(t, h.record(c.stored), `"error": "ValueError: rayserve: malformed message`)
					}
				})
			})
		}
	}
}

func TestRayServeUnknownTask(t *testing.T) {
	// celery.chord_unlock means nothing here.
	for _, name := range []string{"nobody", "celery.chord_unlock"} {
		inRayBubble(t, threeTimes, func(h *rayHarness) {
			h.enqueue("id-1", name)
			h.start()
			lines := h.journaled()
			require.Equal(t, []string{"store FAILURE", "dead-letter odd unregistered"}, lines[len(lines)-2:])
			require.Contains(t, h.record("id-1"), `"error": "NotRegistered: no task \"`+name+`\" is registered with the worker"`)
			require.Equal(t, TaskUnknown{Task: name, ID: "id-1", Queue: "models", KeptIn: "odd", Fate: Kept}, seen[TaskUnknown](h.recorder)[0])
			require.Contains(t, h.record("id-1"), `"created_at": "2026-11-29T10:00:00+00:00"`)
		})
	}
}

// TestRayServeIgnored: nobody waits for ever for a task that wants no result.
func TestRayServeIgnored(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Ignore("nothing to do") })
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		require.Contains(t, h.record("id-1"), `"status": "SUCCESS", "result": null`)
		require.Len(t, seen[TaskIgnored](h.recorder), 1)
		require.Empty(t, h.broker.waiting("models"))
	})
}

// TestRayServeDeliveredTwice: a server may hand out one message twice at the same time;
// its task runs once.
func TestRayServeDeliveredTwice(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Minute); return "done", nil })
		h.enqueue("id-1", "predict")
		h.broker.put("models", h.broker.waiting("models")[0])
		h.start()
		elapse(3 * time.Minute)
		require.Len(t, seen[TaskStarted](h.recorder), 1)
		require.Len(t, seen[TaskDuplicate](h.recorder), 1)
		require.Empty(t, h.broker.waiting("models"))
	})
}

// TestRayServeRetry: a handler that asks for a retry gets its message again after the
// countdown, and has failed when the deliveries are used up.
func TestRayServeRetry(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		var at []time.Duration
		begun := time.Now()
		h.handle("predict", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			at = append(at, time.Since(begun))
			return nil, tasks.Retry(ctx, tasks.NewPythonError("builtins", "OSError", "busy"), tasks.Countdown(30*time.Second))
		}, tasks.MaxRetries(99))
		h.enqueue("id-1", "predict")
		h.start()
		elapse(time.Hour)
		require.Equal(t, []time.Duration{0, 30 * time.Second, time.Minute}, at)
		require.Contains(t, h.record("id-1"), `"error": "OSError: busy"`)
		require.Len(t, h.letters.told, 1)
		require.Empty(t, h.broker.sent(), "a retry is the same message")
	})
}

// TestRayServeLostWorker: a delivery that ended with its worker counts.
func TestRayServeLostWorker(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", failing(0))
		body, err := rayserve.EncodeTask(rayserve.Task{ID: "id-1", Name: "predict"})
		require.NoError(t, err)
		h.broker.put("models", &fakeMessage{body: body, starts: 3})
		h.start()
		h.journaled()
		require.Contains(t, h.record("id-1"), `"error": "WorkerLostError: Worker exited prematurely: delivered 3 times`)
		require.Len(t, h.broker.waiting("failed"), 1)
	})
}

// TestRayServeGoexit: a handler that ends its goroutine has lost the task like a worker
// that died, and it comes again.
func TestRayServeGoexit(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.handle("predict", func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, nil })
		h.enqueue("id-1", "predict")
		h.start()
		elapse(time.Minute)
		require.Contains(t, h.record("id-1"), `"error": "WorkerLostError: `)
		require.Equal(t, 3, h.broker.waiting("failed")[0].attempts)
	})
}

// TestRayServeBesideCelery: each queue has its own protocol, results and rules.
func TestRayServeBesideCelery(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.IgnoreResult, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 5, "dead"
		h.handle("predict", failing(0))
		h.enqueue("id-1", "predict", "x")
		id := h.send(protocol.Message{Task: "predict", Args: []any{"y"}})
		h.broker.put("celery", &fakeMessage{body: []byte(`{"task_id": "id-2", "task_name": "predict"}`)})
		h.broker.put("models", &fakeMessage{body: encode(t, &protocol.Message{Task: "predict"})})
		h.start()
		h.journaled()
		require.Equal(t, protocol.StateSuccess, h.state("id-1").Status)
		require.Empty(t, h.backend.states("id-1"))
		require.Empty(t, h.backend.states(id), "task_ignore_result is Celery's")
		require.Empty(t, h.results.states(id))
		require.Len(t, seen[TaskSucceeded](h.recorder), 2)
		require.Len(t, h.broker.waiting("celery.unprocessable"), 1)
		require.Len(t, h.broker.waiting("odd"), 1)
	})
}

func TestProgress(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		report := func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return "done", tasks.Progress(ctx, 42.9, "layer 3")
		}
		h.handle("predict", report)
		h.enqueue("id-1", "predict")
		id := h.send(protocol.Message{Task: "predict"})
		ignored := h.send(protocol.Message{Task: "predict", IgnoreResult: new(true)})
		h.start()
		h.journaled()
		require.Equal(t, []fakeBroadcast{{
			"models.progress", []byte(`{"task_id": "id-1", "pct": 42.9, "detail": "layer 3"}`),
			map[string]string{"task_id": "id-1", "pct": "42"},
		}}, h.broker.broadcasts)
		states := h.backend.states(id)
		require.Len(t, states, 2)
		require.Equal(t, protocol.State("PROGRESS"), states[0].Status)
		require.Equal(t, map[string]any{"pct": 42.9, "detail": "layer 3"}, states[0].Result)
		require.False(t, h.backend.first[id+" SUCCESS"], "PROGRESS has to be removed")
		require.Empty(t, h.backend.states(ignored))
	})
}

func TestRayServeOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"a queue that is not consumed": func(o *Options) { o.RayServe = map[string]RayServeQueue{"other": {}} },
		"fewer than no retries":        func(o *Options) { o.RayServe = map[string]RayServeQueue{"celery": {MaxRetries: -1}} },
		"its own failed queue":         func(o *Options) { o.RayServe = map[string]RayServeQueue{"celery": {FailedTaskQueue: "celery"}} },
		"a failed queue that is consumed": func(o *Options) {
			o.Queues = []string{"models", "celery"}
			o.RayServe = map[string]RayServeQueue{"models": {FailedTaskQueue: "celery"}}
		},
		"its own unprocessable queue": func(o *Options) { o.RayServe = map[string]RayServeQueue{"celery": {UnprocessableTaskQueue: "celery"}} },
	} {
		o := DefaultOptions()
		o.Hostname, o.Concurrency = "celery@test", 1
		require.NoError(t, o.validate())
		change(&o)
		require.ErrorIs(t, o.validate(), ErrOptions, name)
	}
}

// TestFateHandedBack: a message that could not be put aside is not told as dropped.
func TestFateHandedBack(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		failures := 1
		h.broker.fail = func(operation string) error {
			if operation == "dead-letter odd malformed" && failures > 0 {
				failures--
				return errors.New("away")
			}
			return nil
		}
		h.broker.put("models", &fakeMessage{body: []byte("{")})
		h.start()
		elapse(2 * requeueMax)
		h.journaled()
		odd := seen[MessageUnprocessable](h.recorder)
		require.Len(t, odd, 2)
		require.Equal(t, []Fate{HandedBack, Kept}, []Fate{odd[0].Fate, odd[1].Fate})
	})
}
