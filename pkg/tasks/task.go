package tasks

import "context"

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
	})
	if panicked != nil {
		return nil, panicked
	}
	return result, err
}
