package gocelery

import (
	"context"
	"reflect"
	"sync"

	upstream "github.com/gocelery/gocelery"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// keywords is the signature of every CeleryTask.
type keywords struct {
	Kwargs map[string]any `celery:",kwargs"`
}

func celeryTaskHandler(name string, task upstream.CeleryTask) (tasks.HandlerFunc, error) {
	signature, err := binding.Compile(name, reflect.TypeFor[keywords]())
	if err != nil {
		return nil, err
	}
	instance := instances(task)
	return func(_ context.Context, args tasks.Arguments) (any, error) {
		var in keywords
		if err := signature.Bind(args.Args, args.Kwargs, reflect.ValueOf(&in).Elem()); err != nil {
			return nil, err
		}
		for name, value := range in.Kwargs {
			in.Kwargs[name] = jsonValue(value)
		}
		task, release := instance()
		defer release()
		if err := task.ParseKwargs(in.Kwargs); err != nil {
			return nil, signature.Refuse(err)
		}
		return task.RunTask()
	}, nil
}

// instances returns a function that gives each run a CeleryTask to work on, and
// what to call after the run.
func instances(task upstream.CeleryTask) func() (upstream.CeleryTask, func()) {
	original := reflect.ValueOf(task)
	if original.Kind() != reflect.Pointer || original.Elem().Kind() != reflect.Struct {
		var running sync.Mutex
		return func() (upstream.CeleryTask, func()) {
			running.Lock()
			return task, running.Unlock
		}
	}
	return func() (upstream.CeleryTask, func()) {
		fresh := reflect.New(original.Type().Elem())
		fresh.Elem().Set(original.Elem())
		return fresh.Interface().(upstream.CeleryTask), func() {} //nolint:forcetypeassert // it has the type of task
	}
}
