package worker

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

type wrapKey struct{}

// wrapping is an observer that goes along.
type wrapping struct {
	name    string
	journal *journal
}

func (*wrapping) Observe(Event) {}

func (w *wrapping) Wrap(next tasks.HandlerFunc) tasks.HandlerFunc {
	return func(ctx context.Context, args tasks.Arguments) (any, error) {
		request, _ := tasks.RequestFrom(ctx)
		w.journal.add("%s begins %s", w.name, request.ID)
		defer w.journal.add("%s ends", w.name)
		return next(context.WithValue(ctx, wrapKey{}, w.name), args)
	}
}

func (h *harness) startWith(observers ...Observer) {
	h.t.Helper()
	w, err := New(h.options, h.registry, h.broker, h.backend, append(observers, h.recorder)...)
	require.NoError(h.t, err)
	require.NoError(h.t, w.Start(context.Background()))
	h.worker = w
}

// TestWrappersAreAroundTheMiddleware: a tracer's context is what middleware and
// handler see.
func TestWrappersAreAroundTheMiddleware(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.registry.Use(func(_ *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
			return func(ctx context.Context, args tasks.Arguments) (any, error) {
				h.journal.add("middleware in %v", ctx.Value(wrapKey{}))
				return next(ctx, args)
			}
		})
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			h.journal.add("handler in %v", ctx.Value(wrapKey{}))
			return nil, nil //nolint:nilnil // None
		})
		h.startWith(&wrapping{"outer", h.journal}, &wrapping{"inner", h.journal})
		h.send(protocol.Message{Task: "t", ID: "id"})
		require.Equal(t, []string{
			"ack", "worker.TaskStarted", "outer begins id", "inner begins id",
			"middleware in inner", "handler in inner", "inner ends", "outer ends",
			"store SUCCESS", "worker.TaskSucceeded",
		}, h.settled())
	})
}

// TestEndedIsTheLastEvent, with the request the wrapper saw, also where nothing
// else is told.
func TestEndedIsTheLastEvent(t *testing.T) {
	for name, handler := range map[string]tasks.HandlerFunc{
		"success": func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil },
		"failure": func(context.Context, tasks.Arguments) (any, error) { return nil, errBoom },
		"requeue": func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("later", true) },
		"goexit":  func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, errBoom },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				var request *tasks.Request
				h.handle("t", func(ctx context.Context, args tasks.Arguments) (any, error) {
					if request == nil {
						request, _ = tasks.RequestFrom(ctx)
						return handler(ctx, args)
					}
					return int64(1), nil // the copy of the requeued one
				})
				h.startWith(&wrapping{"w", h.journal})
				h.send(protocol.Message{Task: "t"})
				h.settled()
				ended := seen[TaskEnded](h.recorder)
				require.NotEmpty(t, ended)
				require.Same(t, request, ended[0].Request)
				require.Contains(t, h.journal.all(), "w ends")
			})
		})
	}
}

// headering adds a header to what is retried.
type headering struct{}

func (headering) Observe(Event) {}

func (headering) Wrap(next tasks.HandlerFunc) tasks.HandlerFunc {
	return func(ctx context.Context, args tasks.Arguments) (any, error) {
		result, err := next(ctx, args)
		if outcome, ok := tasks.OutcomeOf(err); ok {
			var retry *tasks.RetryError
			if errors.As(outcome, &retry) {
				retry.Headers = map[string]any{"trace": "new"}
			}
		}
		return result, err
	}
}

// TestWrapperAddsHeadersToARetry, also to one that AutoRetryFor asks for.
func TestWrapperAddsHeadersToARetry(t *testing.T) {
	for name, options := range map[string][]tasks.Option{
		"asked":     nil,
		"automatic": {tasks.AutoRetryFor(tasks.AnyError)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
					if options == nil {
						return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
					}
					return nil, errBoom
				}, options...)
				h.startWith(headering{})
				h.send(protocol.Message{Task: "t", CustomHeaders: map[string]any{"trace": "old", "mine": "kept"}})
				h.settled()
				published := h.broker.sent()
				require.NotEmpty(t, published)
				require.Equal(t, map[string]any{"trace": "new", "mine": "kept"}, h.decode(published[0].message.Body).CustomHeaders)
			})
		})
	}
}
