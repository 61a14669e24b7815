package worker

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// leaving is every hook; the one for where ends its goroutine the first time.
type leaving struct {
	where string
	left  bool
}

func (l *leaving) at(where string) {
	if l.where == where && !l.left {
		l.left = true
		runtime.Goexit()
	}
}

func (l *leaving) OnReceived(context.Context, *tasks.Request) { l.at("received") }
func (l *leaving) OnPrerun(context.Context, *tasks.Request)   { l.at("prerun") }
func (l *leaving) OnPostrun(context.Context, *tasks.Request, string, any, error) {
	l.at("postrun")
}
func (l *leaving) OnSuccess(context.Context, *tasks.Request, any)             { l.at("success") }
func (l *leaving) OnFailure(context.Context, *tasks.Request, error)           { l.at("failure") }
func (l *leaving) OnRetry(context.Context, *tasks.Request, *tasks.RetryError) { l.at("retry") }
func (l *leaving) OnRejected(context.Context, tasks.Rejection)                { l.at("rejected") }
func (l *leaving) OnDeadLetter(context.Context, string, error)                { l.at("dead letter") }

// requireAtRest: nothing is left of what the worker had to do.
func (h *harness) requireAtRest() {
	h.t.Helper()
	require.Zero(h.t, h.unsettled(), "a delivery is not settled")
	if window := h.worker.window; window != nil {
		window.mu.Lock()
		defer window.mu.Unlock()
		require.Empty(h.t, window.running, "a claim is not given back")
	}
	started, ended := map[*tasks.Request]int{}, map[*tasks.Request]int{}
	for _, e := range seen[TaskStarted](h.recorder) {
		started[e.Request]++
	}
	for _, e := range seen[TaskEnded](h.recorder) {
		ended[e.Request]++
	}
	for request, n := range started {
		require.Equal(h.t, 1, n)
		require.Equal(h.t, 1, ended[request], "a run that was started has not ended for the observers")
	}
}

// TestHookThatEndsItsGoroutine leaves nothing behind: no message, claim or slot, and
// no run without an end.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	for where, handler := range map[string]tasks.HandlerFunc{
		"received": nothing, "prerun": nothing, "success": nothing, "postrun": nothing,
		"failure": returning(nil, errBoom), "rejected": returning(nil, tasks.Reject("no", false)),
		"dead letter": returning(nil, tasks.Reject("no", false)),
		"retry": func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
		},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%t", where, late), func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.options.AcksLate, h.options.Concurrency, h.options.DeadLetterQueue = late, 1, "dead"
					h.handle("t", handler)
					h.registry.AddHook(&leaving{where: where})
					h.start()
					h.send(protocol.Message{Task: "t", ID: "id"})
					elapse(time.Minute)
					h.requireAtRest()
					h.send(protocol.Message{Task: "t", ID: "another"})
					elapse(time.Minute)
					require.Len(t, seen[TaskStarted](h.recorder), 2, "the slot is free")
				})
			})
		}
	}
}

// TestColdShutdownBeforeTheStart: a message that is taken while the worker ends is
// not acked for a handler whose context has ended.
func TestColdShutdownBeforeTheStart(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			ran := newCounter(time.Second, succeeds)
			h.handle("t", ran.handler)
			h.registry.AddHook(receivedFunc(func() { h.worker.Cancel() }))
			h.start()
			id := h.send(protocol.Message{Task: "t"})
			synctest.Wait()
			require.NoError(t, h.worker.Stop(context.Background()))
			require.Zero(t, ran.count(id))
			require.Len(t, h.broker.waiting("celery"), 1)
		})
	}
}

type receivedFunc func()

func (f receivedFunc) OnReceived(context.Context, *tasks.Request) { f() }

type panickingWrapper struct{ after bool }

func (panickingWrapper) Observe(Event) {}

func (p panickingWrapper) Wrap(next tasks.HandlerFunc) tasks.HandlerFunc {
	return func(ctx context.Context, args tasks.Arguments) (any, error) {
		if p.after {
			_, _ = next(ctx, args)
		}
		panic("a wrapper")
	}
}

// TestWrapperThatPanics changes nothing: the task runs once and ends as it ends.
func TestWrapperThatPanics(t *testing.T) {
	for _, after := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			ran := newCounter(0, succeeds)
			h.handle("t", ran.handler)
			h.handle("leaves", func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, nil })
			h.startWith(panickingWrapper{after})
			id := h.send(protocol.Message{Task: "t"})
			left := h.send(protocol.Message{Task: "leaves"})
			h.requireAtRest()
			require.Equal(t, 1, ran.count(id))
			require.Equal(t, int64(5), h.only(id).Result)
			require.Equal(t, "WorkerLostError", h.only(left).Result.(protocol.Exception).Type)
		})
	}
}
