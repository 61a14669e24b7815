package tasks

import "slices"

// Middleware wraps the handler of a task. It is called once per task, when the
// task first runs; the function it returns is called for each request. The
// request is in the context, see RequestFrom. Arguments that don't fit a typed
// handler come back from next as an *ArgumentError.
type Middleware func(task *Task, next HandlerFunc) HandlerFunc

// wrap puts the middleware around a handler, the first outermost.
func (r *Registry) wrap(task *Task, handler HandlerFunc) HandlerFunc {
	r.mu.Lock()
	r.composed = true
	middleware := r.middleware
	r.mu.Unlock()
	for _, m := range slices.Backward(slices.Concat(middleware, task.options.Middleware)) {
		handler = m(task, handler)
	}
	return handler
}
