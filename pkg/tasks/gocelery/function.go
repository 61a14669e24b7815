package gocelery

import (
	"context"
	"fmt"
	"reflect"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// function is a plain Go function as a task.
type function struct {
	value        reflect.Value
	takesContext bool
	// arguments is a struct with a field for each parameter, which makes a function
	// bind like any other handler.
	arguments reflect.Type
	signature *binding.Signature
	// dynamic tells for each parameter whether it holds interfaces.
	dynamic []bool
	// returnsError tells whether the last result is an error.
	returnsError bool
}

// functionHandler compiles the function once.
func functionHandler(name string, value reflect.Value) (tasks.HandlerFunc, error) {
	t := value.Type()
	f := &function{value: value}
	f.takesContext = t.NumIn() > 0 && t.In(0) == reflect.TypeFor[context.Context]()
	f.returnsError = t.NumOut() > 0 && t.Out(t.NumOut()-1) == reflect.TypeFor[error]()
	var fields []reflect.StructField
	for i := f.firstArgument(); i < t.NumIn(); i++ {
		option := "required"
		if t.IsVariadic() && i == t.NumIn()-1 {
			option = "args"
		}
		number := len(fields) + 1
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Arg%d", number),
			Type: t.In(i),
			Tag:  reflect.StructTag(fmt.Sprintf(`celery:"arg%d,%s"`, number, option)),
		})
		f.dynamic = append(f.dynamic, holdsInterfaces(t.In(i)))
	}
	f.arguments = reflect.StructOf(fields)
	var err error
	f.signature, err = binding.Compile(name, f.arguments)
	return f.run, err
}

func (f *function) firstArgument() int {
	if f.takesContext {
		return 1
	}
	return 0
}

// holdsInterfaces tells whether a parameter takes values as encoding/json hands
// them out.
func holdsInterfaces(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return holdsInterfaces(t.Elem())
	default:
		return false
	}
}

func (f *function) run(ctx context.Context, args tasks.Arguments) (any, error) {
	values := make([]any, len(args.Args))
	for i, value := range args.Args {
		// Arguments beyond the last parameter belong to a variadic one.
		if parameter := min(i, len(f.dynamic)-1); parameter >= 0 && f.dynamic[parameter] {
			value = jsonValue(value)
		}
		values[i] = value
	}
	arguments := reflect.New(f.arguments).Elem()
	if err := f.signature.Bind(values, args.Kwargs, arguments); err != nil {
		return nil, err
	}
	return f.outcome(f.call(ctx, arguments))
}

func (f *function) call(ctx context.Context, arguments reflect.Value) []reflect.Value {
	in := make([]reflect.Value, 0, f.value.Type().NumIn())
	if f.takesContext {
		in = append(in, reflect.ValueOf(ctx))
	}
	for i := range arguments.NumField() {
		in = append(in, arguments.Field(i))
	}
	if f.value.Type().IsVariadic() {
		return f.value.CallSlice(in)
	}
	return f.value.Call(in)
}

// outcome takes the first result and a last error, as far as there are any.
func (f *function) outcome(results []reflect.Value) (any, error) {
	if f.returnsError {
		last := len(results) - 1
		if err, failed := results[last].Interface().(error); failed {
			return nil, err
		}
		results = results[:last]
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results[0].Interface(), nil
}
