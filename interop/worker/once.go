package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerOnce registers a task that runs once for each value, and one that makes
// task ids.
func registerOnce(r *tasks.Registry) {
	once := tasks.Once(tasks.NewOnceMemory(),
		tasks.OncePer(func(in countInput) string { return fmt.Sprintf("%s %d", in.Path, in.Value) }), tasks.OnceCountdown(time.Second))
	tasks.Handle(r, "interop.count_once", count, tasks.AcksLate(), tasks.Wrap(once))
	tasks.HandleArguments(r, "interop.deterministic_id", func(_ context.Context, arguments tasks.Arguments) (any, error) {
		return deterministicID(arguments)
	})
}

// deterministicID returns the id that Go makes of a call: the first argument is the
// task's name.
func deterministicID(arguments tasks.Arguments) (string, error) {
	if len(arguments.Args) == 0 {
		return "", errNoName
	}
	name, ok := arguments.Args[0].(string)
	if !ok {
		return "", errNoName
	}
	return tasks.DeterministicID(name, arguments.Args[1:]...)
}

var errNoName = errors.New("interop: the first argument is no name")
