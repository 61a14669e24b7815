package worker

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

func TestNeverMoreUnfinishedThanSlots(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.Concurrency, h.options.AcksLate = 4, late
			var running, most atomic.Int64
			h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
				raise(&most, running.Add(1))
				elapse(10 * time.Millisecond)
				running.Add(-1)
				return nil, nil
			})
			h.start()
			for range 100 {
				h.send(protocol.Message{Task: "t"})
			}
			elapse(time.Minute)
			synctest.Wait()
			require.Len(t, seen[TaskSucceeded](h.recorder), 100)
			require.EqualValues(t, 4, most.Load())
			require.LessOrEqual(t, h.broker.most, 4) // an early one may be acked before the next comes
		})
	}
}

// TestQueuesShareTheSlots: a queue with work gets them all, and an idle one is
// served soon all the same.
func TestQueuesShareTheSlots(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Queues = []string{"busy", "idle", "empty"}
		h.options.Concurrency = 2
		var mu sync.Mutex
		started := map[string]time.Time{}
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			request, _ := tasks.RequestFrom(ctx)
			mu.Lock()
			started[request.ID] = time.Now()
			mu.Unlock()
			elapse(100 * time.Millisecond)
			return nil, nil
		})
		h.start()
		put := func(queue string) string {
			message := protocol.Message{Task: "t", Queue: queue}
			h.broker.put(queue, &fakeMessage{body: encode(t, &message)})
			return message.ID
		}
		begin := time.Now()
		for range 400 { // 20 s of work for two slots
			put("busy")
		}
		elapse(5 * time.Second)
		id, sent := put("idle"), time.Now()
		elapse(time.Second)
		synctest.Wait()
		mu.Lock()
		require.Contains(t, started, id, "the idle queue's message waits for the busy queue")
		require.Less(t, started[id].Sub(sent), time.Second)
		mu.Unlock()
		for len(seen[TaskSucceeded](h.recorder)) < 401 {
			elapse(100 * time.Millisecond)
		}
		require.Less(t, time.Since(begin), 24*time.Second, "slots were idle while the busy queue had work")
	})
}

// TestIdleQueuesDoNotSpin: more empty queues than slots must not cost more than a
// few requests a second, and none may be left out.
func TestIdleQueuesDoNotSpin(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Queues = []string{"a", "b", "c"}
		h.options.Concurrency = 1
		h.start()
		elapse(10 * time.Second)
		requests := map[string]int{}
		for _, line := range h.journal.all() {
			requests[line]++
		}
		for _, queue := range h.options.Queues {
			require.Greater(t, requests["receive "+queue], 20, "%v", requests)
			require.Less(t, requests["receive "+queue], 500, "%v", requests)
		}
	})
}

func TestPanicIsAFailureAndTheWorkerLives(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Concurrency = 1
		h.handle("panics", func(context.Context, tasks.Arguments) (any, error) { panic("ouch") })
		h.handle("works", func(context.Context, tasks.Arguments) (any, error) { return true, nil })
		h.start()
		for range 10 {
			h.send(protocol.Message{Task: "panics"})
		}
		id := h.send(protocol.Message{Task: "works"})
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		failed := seen[TaskFailed](h.recorder)
		require.Len(t, failed, 10)
		require.Contains(t, failed[0].Traceback, "TestPanicIsAFailure", "the stack names the handler")
		require.Contains(t, failed[0].Exception.Args[0], "ouch")
	})
}

// TestGoexitIsALostWorker: a handler that ends its goroutine costs neither its
// slot nor its message.
func TestGoexitIsALostWorker(t *testing.T) {
	for _, requeue := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.Concurrency, h.options.AcksLate, h.options.RejectOnWorkerLost = 1, true, requeue
			h.handle("exits", func(context.Context, tasks.Arguments) (any, error) {
				runtime.Goexit()
				return nil, nil
			})
			h.handle("works", nothing)
			h.start()
			lost := h.send(protocol.Message{Task: "exits"})
			works := h.send(protocol.Message{Task: "works"})
			synctest.Wait()
			require.Equal(t, protocol.StateSuccess, h.only(works).Status)
			if requeue {
				require.Empty(t, h.backend.states(lost))
				require.Contains(t, h.journal.all(), "requeue 1s")
			} else {
				require.Equal(t, "WorkerLostError", h.only(lost).Result.(protocol.Exception).Type)
			}
		})
	}
}

type panickingObserver struct{}

func (panickingObserver) Observe(Event) { panic("observer") }

func TestPanicInAnObserverHarmsNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		w, err := New(h.options, h.registry, h.broker, h.backend, panickingObserver{}, h.recorder)
		require.NoError(t, err)
		require.NoError(t, w.Start(context.Background()))
		h.worker = w
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
	})
}

func TestIgnoreResult(t *testing.T) {
	for name, c := range map[string]struct {
		worker  bool
		task    []tasks.Option
		message *bool
		stored  bool
	}{
		"nobody says":               {false, nil, nil, true},
		"the worker ignores":        {true, nil, nil, false},
		"the task ignores":          {false, []tasks.Option{tasks.IgnoreResult()}, nil, false},
		"the caller ignores":        {false, nil, ptr(true), false},
		"the caller beats the task": {false, []tasks.Option{tasks.IgnoreResult()}, ptr(false), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.IgnoreResult = c.worker
				h.handle("t", nothing, c.task...)
				h.start()
				id := h.send(protocol.Message{Task: "t", IgnoreResult: c.message})
				synctest.Wait()
				require.Equal(t, c.stored, len(h.backend.states(id)) == 1)
			})
		})
	}
}

func TestErrorsAreStoredEvenIfIgnored(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.IgnoreResult, h.options.StoreErrorsEvenIfIgnored = true, true
		h.handle("fails", func(context.Context, tasks.Arguments) (any, error) { return nil, errBoom })
		h.handle("works", nothing)
		h.start()
		fails, works := h.send(protocol.Message{Task: "fails"}), h.send(protocol.Message{Task: "works"})
		synctest.Wait()
		require.Equal(t, protocol.StateFailure, h.only(fails).Status)
		require.Empty(t, h.backend.states(works))
	})
}

// TestTrackStartedAndFirst: on a broker that makes a look wait, a new message is
// taken for the first under its id.
func TestTrackStartedAndFirst(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.TrackStarted = true
		h.broker.capabilities.MinWait = time.Second
		h.handle("t", nothing)
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		states := h.backend.states(id)
		require.Equal(t, protocol.StateStarted, states[0].Status)
		require.Equal(t, "celery@test", states[0].Result.(map[string]any)["hostname"])
		require.True(t, h.backend.first[id+" STARTED"])
		require.False(t, h.backend.first[id+" SUCCESS"], "STARTED is stored before")
		require.True(t, states[0].DateDone.IsZero())
		require.False(t, states[1].DateDone.IsZero())
	})
}

func TestResultExtended(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.ResultExtended = true
		h.handle("t", nothing)
		h.start()
		id := h.send(protocol.Message{Task: "t", Args: []any{int64(1)}, GroupID: "g", ParentID: "p"})
		synctest.Wait()
		meta := h.only(id)
		require.Equal(t, "g", meta.GroupID)
		require.Equal(t, "p", meta.ParentID)
		require.Equal(t, map[string]any{
			"name": "t", "args": []any{int64(1)}, "kwargs": map[string]any{}, "worker": "celery@test",
			"retries": int64(0), "queue": "celery",
		}, meta.Extra)
	})
}

func TestHooksAreCalledOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		hook := &countingHook{}
		h.registry.AddHook(hook)
		h.handle("works", nothing)
		h.handle("fails", func(context.Context, tasks.Arguments) (any, error) { return nil, errBoom })
		h.start()
		h.send(protocol.Message{Task: "works"})
		h.send(protocol.Message{Task: "fails"})
		synctest.Wait()
		require.EqualValues(t, 1, hook.successes.Load())
		require.EqualValues(t, 1, hook.failures.Load())
		require.Len(t, seen[HookPanicked](h.recorder), 1, "OnFailure panics and harms nothing")
	})
}

type countingHook struct{ successes, failures atomic.Int64 }

func (c *countingHook) OnSuccess(context.Context, *tasks.Request, any) { c.successes.Add(1) }
func (c *countingHook) OnFailure(context.Context, *tasks.Request, error) {
	c.failures.Add(1)
	panic("hook")
}

func TestWarmShutdown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("slow", func(context.Context, tasks.Arguments) (any, error) {
			elapse(10 * time.Second)
			return "done", nil
		})
		h.start()
		running := []string{h.send(protocol.Message{Task: "slow"}), h.send(protocol.Message{Task: "slow"})}
		waiting := h.send(protocol.Message{Task: "slow"})
		synctest.Wait()
		require.True(t, h.worker.Consuming())

		begin := time.Now()
		require.NoError(t, h.worker.Stop(context.Background()))
		require.False(t, h.worker.Consuming())
		require.Equal(t, 10*time.Second, time.Since(begin), "it ends when the tasks end")
		for _, id := range running {
			require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		}
		require.Empty(t, h.backend.states(waiting))
		require.Len(t, h.broker.waiting("celery"), 1, "what was not fetched stays")
		require.Zero(t, h.broker.inFlight, "everything is settled")
		require.NoError(t, h.worker.Stop(context.Background()), "Stop is idempotent")
		require.Len(t, seen[Stopped](h.recorder), 1)
		impatient, cancel := context.WithCancel(context.Background())
		cancel()
		for range 20 {
			require.NoError(t, h.worker.Stop(impatient))
		}
		require.Equal(t, []Stopping{{}}, seen[Stopping](h.recorder), "no cold shutdown after the warm one")
	})
}

func TestShutdownHandsBackWhatWaitsForItsETA(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		h.start()
		h.send(protocol.Message{Task: "t", ETA: time.Now().Add(900 * time.Millisecond)})
		synctest.Wait()
		require.NoError(t, h.worker.Stop(context.Background()))
		require.Equal(t, []string{"release"}, h.settled())
		require.Zero(t, h.broker.waiting("celery")[0].attempts, "it was not attempted")
	})
}

func TestColdShutdown(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			h.handle("patient", func(ctx context.Context, _ tasks.Arguments) (any, error) {
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), ErrShutdown)
				return nil, ctx.Err()
			})
			h.start()
			id := h.send(protocol.Message{Task: "patient"})
			synctest.Wait()
			stopped := make(chan error, 1)
			go func() { stopped <- h.worker.Stop(context.Background()) }()
			synctest.Wait()
			h.worker.Cancel()
			require.NoError(t, <-stopped)
			require.Len(t, seen[TaskCancelled](h.recorder), 1)
			if late {
				require.Empty(t, h.backend.states(id))
				require.Len(t, h.broker.waiting("celery"), 1, "the broker has it again")
				require.Zero(t, h.broker.waiting("celery")[0].attempts, "a shutdown is no attempt")
			} else {
				require.Equal(t, protocol.StateRetry, h.only(id).Status)
			}
		})
	}
}

// TestStopOfAStoppedWorkerIsNoColdShutdown: whoever makes sure cancels nothing.
func TestStopOfAStoppedWorkerIsNoColdShutdown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.start()
		require.NoError(t, h.worker.Stop(context.Background()))
		expired, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 {
			require.NoError(t, h.worker.Stop(expired))
		}
		require.Equal(t, []Stopping{{}}, seen[Stopping](h.recorder))
	})
}

func TestStopGivesUpOnAHandlerThatIgnoresItsContext(t *testing.T) {
	inBubble(t, func(h *harness) {
		release := make(chan struct{})
		h.handle("deaf", func(context.Context, tasks.Arguments) (any, error) {
			<-release
			return nil, nil
		})
		h.start()
		h.send(protocol.Message{Task: "deaf"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, h.worker.Stop(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second+cancelGrace, time.Since(begin))
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		text   string
	}{
		"no hostname":     {func(o *Options) { o.Hostname = "" }, "hostname"},
		"no slot":         {func(o *Options) { o.Concurrency = 0 }, "concurrency is 0, at least 1"},
		"no queue":        {func(o *Options) { o.Queues = nil }, "no queue"},
		"a queue twice":   {func(o *Options) { o.Queues = []string{"a", "a"} }, `"a" is named twice`},
		"unknown_task":    {func(o *Options) { o.UnknownTask = "drop" }, `unknown_task is "drop"`},
		"task_protocol":   {func(o *Options) { o.TaskProtocol = 3 }, "task_protocol is 3, 1 and 2"},
		"no timezone":     {func(o *Options) { o.Timezone = nil }, "timezone"},
		"unknown content": {func(o *Options) { o.AcceptContent = []string{"soap"} }, "soap"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			c.change(&h.options)
			_, err := New(h.options, h.registry, h.broker, h.backend)
			require.ErrorIs(t, err, ErrOptions)
			require.Contains(t, err.Error(), c.text)
		})
	}
}

func TestNewRefusesABrokenRegistry(t *testing.T) {
	h := newHarness(t)
	h.handle("t", nothing)
	h.handle("t", nothing)
	_, err := New(h.options, h.registry, h.broker, h.backend)
	require.ErrorContains(t, err, "registered already")
}

func TestStartRefusesAQueueTheBrokerCannotHave(t *testing.T) {
	h := newHarness(t)
	h.options.Queues = []string{"fine", "///"}
	w, err := New(h.options, h.registry, h.broker, h.backend)
	require.NoError(t, err)
	require.ErrorIs(t, w.Start(t.Context()), transport.ErrName)
	require.NoError(t, w.Stop(t.Context()))
}

func TestFetchGoesOnAfterAFailure(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		failures := 3
		h.broker.fail = func(operation string) error {
			if strings.HasPrefix(operation, "receive") {
				if failures--; failures >= 0 {
					return errBoom
				}
			}
			return nil
		}
		h.start()
		synctest.Wait()
		require.False(t, h.worker.Consuming(), "the broker refuses its requests")
		id := h.send(protocol.Message{Task: "t"})
		elapse(30 * time.Second)
		synctest.Wait()
		require.True(t, h.worker.Consuming())
		require.Len(t, seen[FetchFailed](h.recorder), 3)
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
	})
}

// TestStopAfterTheEnd: who stops a stopped worker once more, without any patience, has
// not cancelled anything.
func TestStopAfterTheEnd(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.start()
		require.NoError(t, h.worker.Stop(context.Background()))
		expired, cancel := context.WithCancel(context.Background())
		cancel()
		for range 20 { // Stop would choose by chance
			require.NoError(t, h.worker.Stop(expired))
		}
		h.worker.Cancel()
		require.Equal(t, []Stopping{{}}, seen[Stopping](h.recorder))
	})
}
