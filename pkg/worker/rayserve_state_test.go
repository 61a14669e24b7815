package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// TestRayServeCancelledBefore: a task whose caller has cancelled it is not run.
func TestRayServeCancelledBefore(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		ran := false
		h.handle("predict", func(context.Context, tasks.Arguments) (any, error) { ran = true; return nil, nil })
		h.enqueue("id-1", "predict")
		require.NoError(t, h.results.Store(context.Background(), meta("id-1", protocol.StateRevoked), results.StoreOptions{}))
		h.start()
		lines := h.journaled()
		require.Equal(t, []string{"store REVOKED kept", "worker.TaskRevoked", "ack"}, lines[len(lines)-3:])
		require.False(t, ran)
		require.Contains(t, h.record("id-1"), `"status": "CANCELLED"`)
	})
}

// TestRayServeCancelledWhileRunning: the handler's context ends with the cause, and the
// caller's CANCELLED stays whatever the handler returns.
func TestRayServeCancelledWhileRunning(t *testing.T) {
	for name, returns := range map[string]error{"an error": errors.New("cut short"), "nothing": nil, "a retry": &tasks.RetryError{}} {
		t.Run(name, func(t *testing.T) {
			inRayBubble(t, threeTimes, func(h *rayHarness) {
				var cause error
				h.handle("predict", func(ctx context.Context, _ tasks.Arguments) (any, error) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return "late", returns
				})
				h.enqueue("id-1", "predict")
				h.start()
				elapse(10 * time.Second)
				synctest.Wait()
				require.NoError(t, cause)
				require.NoError(t, h.results.Store(context.Background(), meta("id-1", protocol.StateRevoked), results.StoreOptions{}))
				elapse(2 * cancelLook)
				lines := h.journaled()
				require.ErrorIs(t, cause, tasks.ErrTaskCancelled)
				require.Equal(t, protocol.StateRevoked, h.state("id-1").Status)
				require.Equal(t, "ack", lines[len(lines)-1])
				require.Empty(t, h.broker.waiting("models"))
			})
		})
	}
}

// glancing counts how a backend is read.
type glancing struct {
	*callersBackend
	fetched, glanced atomic.Int32
}

func (b *glancing) Fetch(ctx context.Context, id string) (protocol.Meta, error) {
	b.fetched.Add(1)
	return b.callersBackend.Fetch(ctx, id)
}

func (b *glancing) Glance(ctx context.Context, id string) (protocol.Meta, error) {
	b.glanced.Add(1)
	return b.callersBackend.Fetch(ctx, id)
}

// TestRayServeGlances: to look for a cancel, before the start and while the task runs,
// costs as little as the backend allows.
func TestRayServeGlances(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		backend := &glancing{callersBackend: h.results}
		queue := threeTimes
		queue.Backend = backend
		h.options.RayServe["models"] = queue
		h.handle("predict", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		h.enqueue("id-1", "predict")
		h.start()
		elapse(10*time.Second + cancelLook/2)
		fetched, glanced := backend.fetched.Load(), backend.glanced.Load()
		require.NoError(t, h.results.Store(context.Background(), meta("id-1", protocol.StateRevoked), results.StoreOptions{}))
		elapse(2 * cancelLook)
		require.Zero(t, fetched)
		require.EqualValues(t, 1+10, glanced, "before it starts, and each second")
		require.Len(t, seen[TaskRevoked](h.recorder), 1)
	})
}

// TestRayServeLooksWholly: who had the message before may have died while a state was
// stored, so that a glance would show an older one.
func TestRayServeLooksWholly(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		backend := &glancing{callersBackend: h.results}
		queue := threeTimes
		queue.Backend = backend
		h.options.RayServe["models"] = queue
		h.handle("predict", failing(1))
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		require.Equal(t, protocol.StateSuccess, h.state("id-1").Status)
		require.EqualValues(t, 1, backend.glanced.Load(), "the first delivery")
		require.EqualValues(t, 1, backend.fetched.Load(), "the second delivery")
	})
}

// TestRayServeSucceededBefore: a task whose ack was lost is not run again.
func TestRayServeSucceededBefore(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		ran := 0
		h.handle("predict", func(context.Context, tasks.Arguments) (any, error) { ran++; return "done", nil })
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		h.enqueue("id-1", "predict") // the fake keeps SUCCESS
		h.journaled()
		require.Equal(t, 1, ran)
		require.Empty(t, h.broker.waiting("models"))
		require.Len(t, seen[TaskDuplicate](h.recorder), 1)
	})
}

// TestRayServeStateUnread: a backend that is away keeps no task from running.
func TestRayServeStateUnread(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.results.fetchFails = true
		h.handle("predict", failing(0))
		h.enqueue("id-1", "predict")
		h.start()
		h.journaled()
		require.Equal(t, protocol.StateSuccess, h.state("id-1").Status)
		require.Len(t, seen[LookFailed](h.recorder), 1)
	})
}
