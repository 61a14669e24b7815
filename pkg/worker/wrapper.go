package worker

import (
	"context"
	"slices"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// Wrapper is implemented by an Observer that goes along with each run, as a tracer
// does. Wrap returns next with something around it: it may give next a context of
// its own, and add to the headers of the *tasks.RetryError that next returns. It is
// outside all middleware, and it must not change how a task ends; a panic in it is
// swallowed, and the handler runs without it if it has not begun. What
// became of the run is told to Observe, last of all TaskEnded, with the
// *tasks.Request that tasks.RequestFrom finds in the context.
type Wrapper interface {
	Wrap(next tasks.HandlerFunc) tasks.HandlerFunc
}

// wrapped puts the wrappers among the observers around a run, the first outermost.
func (w *Worker) wrapped(run tasks.HandlerFunc) tasks.HandlerFunc {
	for _, observer := range slices.Backward(w.observers) {
		if wrapper, ok := observer.(Wrapper); ok {
			run = harmless(wrapper, run)
		}
	}
	return run
}

// harmless is next with a wrapper around it whose panics change nothing.
func harmless(wrapper Wrapper, next tasks.HandlerFunc) tasks.HandlerFunc {
	return func(ctx context.Context, args tasks.Arguments) (value any, err error) {
		begun := false
		var innerValue any
		var innerErr error
		inner := func(ctx context.Context, args tasks.Arguments) (any, error) {
			begun = true
			innerValue, innerErr = next(ctx, args)
			return innerValue, innerErr
		}
		defer func() {
			if recover() == nil {
				return
			}
			if !begun {
				_, _ = inner(ctx, args)
			}
			value, err = innerValue, innerErr
		}()
		return wrapper.Wrap(inner)(ctx, args)
	}
}
