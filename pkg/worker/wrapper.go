package worker

import (
	"slices"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// Wrapper is implemented by an Observer that goes along with each run, as a tracer
// does. Wrap returns next with something around it: it may give next a context of
// its own, and add to the headers of the *tasks.RetryError that next returns. It is
// outside all middleware, and it must not panic or change how a task ends. What
// became of the run is told to Observe, last of all TaskEnded, with the
// *tasks.Request that tasks.RequestFrom finds in the context.
type Wrapper interface {
	Wrap(next tasks.HandlerFunc) tasks.HandlerFunc
}

// wrapped puts the wrappers among the observers around a run, the first outermost.
func (w *Worker) wrapped(run tasks.HandlerFunc) tasks.HandlerFunc {
	for _, observer := range slices.Backward(w.observers) {
		if wrapper, ok := observer.(Wrapper); ok {
			run = wrapper.Wrap(run)
		}
	}
	return run
}
