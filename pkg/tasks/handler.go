package tasks

import (
	"context"
	"errors"
	"reflect"

	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// Arguments are the arguments of a call as they came over the wire; the comment
// of package protocol lists the types of the values.
type Arguments struct {
	Args   []any
	Kwargs map[string]any
}

// HandlerFunc is a handler in its general form.
type HandlerFunc func(ctx context.Context, args Arguments) (any, error)

// None is the input of a handler without arguments, and the output of one
// without a result: Python's None.
type None = struct{}

// ArgumentError says that the arguments of a message don't fit the handler. It is
// returned before the handler runs, and is a TypeError for the Python caller.
type ArgumentError = binding.Error

var (
	errNoFunction = errors.New("the handler is nil")
	errUntyped    = errors.New("a handler that takes Arguments is registered by HandleArguments")
)

// Handle registers fn as the task name. In is a struct (or a pointer to one) whose
// fields are the parameters, as the package comment tells. The result becomes a
// Python value by protocol.ToValue; with an error it is dropped.
//
// A mistake is reported by Registry.Err.
func Handle[In, Out any](r *Registry, name string, fn func(context.Context, In) (Out, error), options ...Option) {
	if _, untyped := any(*new(In)).(Arguments); untyped {
		r.Mistake(name, errUntyped)
		return
	}
	if fn == nil {
		r.Mistake(name, errNoFunction)
		return
	}
	signature, err := binding.Compile(name, reflect.TypeFor[In]())
	if err != nil {
		r.Mistake(name, err)
		return
	}
	r.add(name, typedHandler(signature, fn), options)
}

// typedHandler binds the arguments of each call and hands them to fn.
func typedHandler[In, Out any](signature *binding.Signature, fn func(context.Context, In) (Out, error)) HandlerFunc {
	_, noResult := any(*new(Out)).(None)
	return func(ctx context.Context, args Arguments) (any, error) {
		var in In
		if err := signature.Bind(args.Args, args.Kwargs, reflect.ValueOf(&in).Elem()); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil || noResult {
			return nil, err
		}
		return out, nil
	}
}

// HandleArguments registers a handler that takes the arguments as they came.
//
// A mistake is reported by Registry.Err.
func HandleArguments(r *Registry, name string, fn HandlerFunc, options ...Option) {
	if fn == nil {
		r.Mistake(name, errNoFunction)
		return
	}
	r.add(name, fn, options)
}
