package worker

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// hookRecorder has all hooks that the engine calls, and panics in each of them.
type hookRecorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *hookRecorder) add(ctx context.Context, request *tasks.Request, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	if current, _ := tasks.RequestFrom(ctx); current != request {
		call += " with another request in the context"
	}
	r.calls = append(r.calls, call)
	panic("a hook")
}

func (r *hookRecorder) called() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

func (r *hookRecorder) OnReceived(ctx context.Context, request *tasks.Request) {
	r.add(ctx, request, "received")
}

func (r *hookRecorder) OnPrerun(ctx context.Context, request *tasks.Request) {
	r.add(ctx, request, "prerun")
}

func (r *hookRecorder) OnPostrun(ctx context.Context, request *tasks.Request, state string, result any, err error) {
	r.add(ctx, request, "postrun %s %v %t", state, result, err != nil)
}

func (r *hookRecorder) OnSuccess(ctx context.Context, request *tasks.Request, result any) {
	r.add(ctx, request, "success %v", result)
}

func (r *hookRecorder) OnFailure(ctx context.Context, request *tasks.Request, _ error) {
	r.add(ctx, request, "failure")
}

func (r *hookRecorder) OnExhausted(ctx context.Context, request *tasks.Request, _ *tasks.ExhaustedError) {
	r.add(ctx, request, "exhausted")
}

func (r *hookRecorder) OnRetry(ctx context.Context, request *tasks.Request, retry *tasks.RetryError) {
	r.add(ctx, request, "retry %v", retry.Cause)
}

func (r *hookRecorder) OnRevoked(ctx context.Context, request *tasks.Request, expired bool) {
	r.add(ctx, request, "revoked %t", expired)
}

func (r *hookRecorder) OnRejected(ctx context.Context, rejection tasks.Rejection) {
	r.add(ctx, rejection.Request, "rejected %s %s %t", rejection.Queue, rejection.Reason, rejection.Requeue)
}

func (r *hookRecorder) OnUnknown(ctx context.Context, task, id, queue string) {
	r.add(ctx, nil, "unknown %s %s %s", task, id, queue)
}

func (h *harness) recordHooks() *hookRecorder {
	r := &hookRecorder{}
	h.registry.AddHook(r)
	return r
}

// TestHooksOfEachOutcome: each hook is called once, in Celery's order, for what
// has happened to the task and not for what the handler returned.
func TestHooksOfEachOutcome(t *testing.T) {
	retry := func(ctx context.Context) (any, error) {
		return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
	}
	cases := map[string]struct {
		handler func(ctx context.Context) (any, error)
		early   []string
		late    []string // nil: the same
		change  func(h *harness, message *protocol.Message)
	}{
		"success": {
			handler: func(context.Context) (any, error) { return 7, nil },
			early:   []string{"received", "prerun", "success 7", "postrun SUCCESS 7 false"},
		},
		"failure": {
			handler: func(context.Context) (any, error) { return nil, errBoom },
			early:   []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
		},
		"result without a form": {
			handler: func(context.Context) (any, error) { return make(chan int), nil },
			early:   []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
		},
		"retry": {
			handler: retry,
			early:   []string{"received", "prerun", "retry boom", "postrun RETRY <nil> true"},
		},
		"exhausted": {
			handler: retry,
			change:  func(_ *harness, m *protocol.Message) { m.Retries = 3 },
			early:   []string{"received", "prerun", "exhausted", "failure", "postrun FAILURE <nil> true"},
		},
		"retry that can't be published": {
			handler: retry,
			change: func(h *harness, _ *protocol.Message) {
				h.broker.fail = func(operation string) error {
					if operation == "publish celery" {
						return errBoom
					}
					return nil
				}
			},
			early: []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
			late:  []string{"received", "prerun", "rejected celery worker: retry of t[id] could not be published: boom true", "postrun REJECTED <nil> true"},
		},
		"ignore": {
			handler: func(context.Context) (any, error) { return nil, tasks.Ignore("no") },
			early:   []string{"received", "prerun", "postrun IGNORED <nil> true"},
		},
		"reject": {
			handler: func(context.Context) (any, error) { return nil, tasks.Reject("no", false) },
			early:   []string{"received", "prerun", "failure", "postrun REJECTED <nil> true"},
			late:    []string{"received", "prerun", "failure", "rejected celery no false", "postrun REJECTED <nil> true"},
		},
		"worker lost": {
			handler: func(context.Context) (any, error) { runtime.Goexit(); return nil, nil },
			early:   []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
		},
		"worker lost, wanted again": {
			handler: func(context.Context) (any, error) { runtime.Goexit(); return nil, nil },
			change:  func(h *harness, _ *protocol.Message) { h.options.RejectOnWorkerLost = true },
			early:   []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
			late:    []string{"received", "prerun", "rejected celery " + errGoexit.Error() + " true", "postrun REJECTED <nil> true"},
		},
		"expired": {
			handler: func(context.Context) (any, error) { return 7, nil },
			change:  func(_ *harness, m *protocol.Message) { m.Expires = time.Now().Add(-time.Hour) },
			early:   []string{"revoked true"},
		},
		"arguments that are none": {
			handler: func(context.Context) (any, error) { return 7, nil },
			change:  func(_ *harness, m *protocol.Message) { m.Args = int64(1) },
			early:   []string{"received", "prerun", "failure", "postrun FAILURE <nil> true"},
		},
	}
	for name, c := range cases {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%t", name, late), func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.options.AcksLate = late
					ran := false
					h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
						if ran { // delivered again: the test has seen enough
							return nil, tasks.Ignore("")
						}
						ran = true
						return c.handler(ctx)
					})
					hooks := h.recordHooks()
					message := protocol.Message{Task: "t", ID: "id"}
					if c.change != nil {
						c.change(h, &message)
					}
					h.start()
					h.send(message)
					elapse(publishPatience + 200*time.Millisecond)
					synctest.Wait()
					want := c.early
					if late && c.late != nil {
						want = c.late
					}
					called := hooks.called()
					require.GreaterOrEqual(h.t, len(called), len(want), "%v", called)
					require.Equal(h.t, want, called[:len(want)])
					if len(called) > len(want) { // delivered again
						require.Equal(h.t, []string{"received", "prerun", "postrun IGNORED <nil> true"}, called[len(want):])
					}
					reported := 0
					for _, event := range seen[HookPanicked](h.recorder) {
						reported += strings.Count(event.Err.Error(), "a hook")
					}
					require.Equal(h.t, len(called), reported, "each panic is reported")
				})
			})
		}
	}
}

// TestHooksOfMessagesThatAreNoTasks: Celery's task_unknown and task_rejected.
func TestHooksOfMessagesThatAreNoTasks(t *testing.T) {
	inBubble(t, func(h *harness) {
		hooks := h.recordHooks()
		h.options.UnknownTask, h.options.UnknownAttempts = UnknownRequeue, 3
		h.start()
		h.send(protocol.Message{Task: "nobody", ID: "id"})
		elapse(time.Minute)
		synctest.Wait()
		require.Len(h.t, seen[TaskUnknown](h.recorder), 3)
		require.Equal(h.t, []string{"unknown nobody id celery"}, hooks.called(), "once, when it is given up")
		h.broker.put("celery", &fakeMessage{body: []byte("no json")})
		synctest.Wait()
		require.Equal(h.t, []string{"unknown nobody id celery", "rejected celery envelope false"}, hooks.called())
	})
}

// TestTaskHooksComeFirst: the task's own before those of all tasks, as in Celery.
func TestTaskHooksComeFirst(t *testing.T) {
	inBubble(t, func(h *harness) {
		hooks := h.recordHooks()
		own := func(ctx context.Context, request *tasks.Request, _ any) {
			hooks.add(ctx, request, "own success")
		}
		h.handle("t", nothing, tasks.OnSuccess(own))
		h.start()
		h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(h.t, []string{
			"received", "prerun", "own success", "success <nil>", "postrun SUCCESS <nil> false",
		}, hooks.called())
	})
}
