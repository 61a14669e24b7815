package tasks

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// OnceOption changes what Once does.
type OnceOption func(*once)

// OnceKey makes the key of a call out of its arguments; calls of one task with equal
// keys are the same to Once. A call with the key "" always runs. An error fails the
// task.
type OnceKey func(args Arguments) (string, error)

// OnceBy sets the key; without it all arguments are the key, as they came: f(1) and
// f(x=1) are two calls then.
func OnceBy(key OnceKey) OnceOption {
	return func(o *once) { o.key = key }
}

// OncePer makes the key out of the arguments as a handler with the input In has
// them, so that f(1) and f(x=1) have the same.
//
//	tasks.Once(store, tasks.OncePer(func(in Order) string { return in.ID }))
func OncePer[In any](key func(In) string) OnceOption {
	signature, err := binding.Compile("once", reflect.TypeFor[In]())
	return OnceBy(func(args Arguments) (string, error) {
		if err != nil {
			return "", err
		}
		var in In
		if err := signature.Bind(args.Args, args.Kwargs, reflect.ValueOf(&in).Elem()); err != nil {
			return "", err
		}
		return key(in), nil
	})
}

// OnceLease sets how long a key stays with a process that has died, a minute where
// it isn't set, a second at least. It also is how long the store may be out of reach
// before a running handler's context ends.
func OnceLease(d time.Duration) OnceOption {
	return func(o *once) { o.lease = max(d, time.Second) }
}

// OnceKeep sets how long a result is kept, a day where it isn't set, a second at
// least: a call that comes later runs again. Stores may keep results for less.
func OnceKeep(d time.Duration) OnceOption {
	return func(o *once) { o.keep = max(d, time.Second) }
}

// OnceCountdown sets how long a call waits for another one with its key, or for a
// store that can't be reached, before it is tried again: 10 seconds where it isn't
// set. 0 or less is at once.
func OnceCountdown(d time.Duration) OnceOption {
	return func(o *once) { o.wait = max(d, 0) }
}

// OnceReport sets a function that is told of errors of the store which don't change
// how the task ends: a claim that was not renewed or ended, a result that was not
// kept. The request is in the context.
func OnceReport(report func(ctx context.Context, err error)) OnceOption {
	return func(o *once) { o.report = report }
}

// Wrap puts middleware around this task alone, inside the registry's, the first
// outermost.
func Wrap(middleware ...Middleware) Option {
	return func(o *Options) error {
		for _, m := range middleware {
			if m == nil {
				return errors.New("Wrap: middleware is nil")
			}
		}
		o.Middleware = append(o.Middleware, middleware...)
		return nil
	}
}

// allArguments is the key where none is set.
func allArguments(args Arguments) (string, error) {
	// No arguments are no arguments, nil or empty.
	list, named := args.Args, args.Kwargs
	if list == nil {
		list = []any{}
	}
	if named == nil {
		named = map[string]any{}
	}
	text, err := protocol.EncodeJSON([]any{list, named})
	return string(text), err
}
