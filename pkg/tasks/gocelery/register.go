package gocelery

import (
	"errors"
	"fmt"
	"reflect"

	upstream "github.com/gocelery/gocelery"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// Register registers what gocelery's Register takes, a function or a CeleryTask,
// as the task name. A mistake is reported by the registry's Err.
//
// A function is called with the positional arguments, whose number must be right;
// a caller that gets it wrong has a TypeError. Arguments become the parameter
// types exactly or not at all, by the rules of package tasks, where gocelery
// converts to int and float32 only and panics for other types. In parameters that
// hold interfaces numbers are float64, as they are in gocelery. The first result
// is the task's result, and a last result of type error is its failure. The
// function may take a context.Context before the arguments; with it
// tasks.RequestFrom and tasks.Retry work.
//
// A CeleryTask takes keyword arguments only, with numbers as float64. gocelery
// calls one shared value from all its goroutines, which is a race; here each run
// works on a copy of the struct that the registered pointer points to, so fields
// that were set before registration are there, and what maps and pointers in it
// lead to is still shared. A task that is not a pointer to a struct runs once at a
// time.
//
// A number that float64 can't hold exactly stays an int64 or a *big.Int instead of
// being rounded. What kombu types in JSON (datetime, Decimal, UUID, bytes) is
// handed out as the text that kombu before 5.3 sends.
func Register(r *tasks.Registry, name string, task any, options ...tasks.Option) {
	handler, err := handlerOf(name, task)
	if err != nil {
		r.Mistake(name, err)
		return
	}
	tasks.HandleArguments(r, name, handler, options...)
}

// handlerOf asks for a CeleryTask first, as gocelery does.
func handlerOf(name string, task any) (tasks.HandlerFunc, error) {
	value := reflect.ValueOf(task)
	if task == nil || (canBeNil(value.Kind()) && value.IsNil()) {
		return nil, errors.New("the task is nil")
	}
	if celeryTask, ok := task.(upstream.CeleryTask); ok {
		return celeryTaskHandler(name, celeryTask)
	}
	if value.Kind() != reflect.Func {
		return nil, fmt.Errorf("a task is a function or a gocelery.CeleryTask, not a %T", task)
	}
	return functionHandler(name, value)
}

func canBeNil(kind reflect.Kind) bool {
	return kind == reflect.Pointer || kind == reflect.Func || kind == reflect.Map || kind == reflect.Slice
}
