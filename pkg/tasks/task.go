package tasks

import (
	"context"
	"errors"
)

// Task is a registered handler with its options.
type Task struct {
	name    string
	options Options
	// chain is the handler inside its middleware, made when it first runs, so that
	// middleware may be added after the task.
	chain func() HandlerFunc
}

// Name is the name the task is registered under.
func (t *Task) Name() string { return t.name }

// Options are the task's options.
func (t *Task) Options() Options { return t.options }

// Run calls the handler through the middleware. A panic in either is returned as
// a *PanicError.
func (t *Task) Run(ctx context.Context, args Arguments) (result any, err error) {
	panicked := guard(func() {
		result, err = t.chain()(withTask(ctx, t), args)
		probe(err)
	})
	if panicked != nil {
		return nil, panicked
	}
	return result, err
}

var errProbe = errors.New("tasks: probe")

// probe calls the methods of an error that the worker will call. They are the
// user's: a typed nil or a careless method panics here, where it is the task's
// failure, and not in the worker.
func probe(err error) {
	if err != nil {
		_ = errors.Is(err, errProbe)
		_ = err.Error()
	}
}
