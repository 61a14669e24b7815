package tasks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Registry holds the tasks of a worker, their middleware and hooks. It is filled
// before the worker starts; its methods may be called from any goroutine.
type Registry struct {
	mu         sync.RWMutex
	tasks      map[string]*Task
	middleware []Middleware
	// composed is set once a task has been put inside the middleware.
	composed bool
	hooks    Hooks
	mistakes []error
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{tasks: map[string]*Task{}}
}

// RegistrationError is a mistake made while a registry was filled.
type RegistrationError struct {
	// Task is the name that was registered; empty for middleware and hooks.
	Task string
	// Err is the mistake.
	Err error
}

// Error names the task and the mistake.
func (e *RegistrationError) Error() string {
	if e.Task == "" {
		return "tasks: " + e.Err.Error()
	}
	return fmt.Sprintf("tasks: can't register %q: %v", e.Task, e.Err)
}

// Unwrap returns the mistake.
func (e *RegistrationError) Unwrap() error { return e.Err }

// ErrDuplicateTask says that two handlers have the same name.
var ErrDuplicateTask = errors.New("the name is registered already")

// Err returns all mistakes made so far, each a *RegistrationError: a duplicate or
// empty name, a handler whose arguments no message can hold, an option out of
// range. A worker refuses to start with them.
func (r *Registry) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return errors.Join(r.mistakes...)
}

// Use adds middleware around every task, whether registered before or after. The
// first one added is the outermost. Once a task has run it is too late: that is
// a mistake, and the middleware is not used.
func (r *Registry) Use(middleware ...Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range middleware {
		switch {
		case m == nil:
			r.addMistake("", errors.New("middleware is nil"))
		case r.composed:
			r.addMistake("", errors.New("middleware was added after a task had run"))
		default:
			r.middleware = append(r.middleware, m)
		}
	}
}

// Lookup returns the task of a name.
func (r *Registry) Lookup(name string) (*Task, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	task, ok := r.tasks[name]
	return task, ok
}

// Names lists the registered tasks in alphabetical order.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.tasks))
}

func (r *Registry) add(name string, handler HandlerFunc, options []Option) {
	if name == "" {
		r.Mistake("", errors.New("a task has no name"))
		return
	}
	effective, err := applyOptions(options)
	if err != nil {
		r.Mistake(name, err)
		return
	}
	task := &Task{name: name, options: effective}
	task.chain = sync.OnceValue(func() HandlerFunc { return r.wrap(task, task.autoRetry(handler)) })

	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.tasks[name]; taken {
		r.addMistake(name, ErrDuplicateTask)
		return
	}
	r.tasks[name] = task
}

// Mistake adds a mistake to Err, for packages that register tasks in a form of
// their own. task may be empty.
func (r *Registry) Mistake(task string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addMistake(task, err)
}

// addMistake is called with the lock held.
func (r *Registry) addMistake(task string, err error) {
	r.mistakes = append(r.mistakes, &RegistrationError{Task: task, Err: err})
}
