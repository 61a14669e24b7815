package command

import (
	"errors"

	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
)

var errNoOnceResults = errors.New("command: tasks.Once keeps its keys in the result backend, and there is none: set result_backend")

// WithOnceResults gives the store, made by onceresult.Unbound, the worker's own
// result backend when the worker starts. The worker does not start where results are
// disabled.
func WithOnceResults(store *onceresult.Store) Option {
	return func(p *program) { p.onceResults = store }
}

// bindOnce hands the worker's result backend to the program's store.
func (p *program) bindOnce(backend results.Backend) error {
	if p.onceResults == nil {
		return nil
	}
	able, ok := backend.(onceresult.Backend)
	if !ok {
		return errNoOnceResults
	}
	p.onceResults.Bind(able)
	return nil
}
