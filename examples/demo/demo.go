// Package demo holds the tasks of the quick start: small, but each shows one
// thing a handler can do.
package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// Register adds the demo tasks to a registry.
func Register(r *tasks.Registry) {
	tasks.Handle(r, "demo.add", add)
	tasks.Handle(r, "demo.greet", greet)
	tasks.Handle(r, "demo.fail", fail)
	tasks.Handle(r, "demo.flaky", flaky, tasks.MaxRetries(10))
	tasks.Handle(r, "demo.noop", noop)
}

type addends struct {
	X int64 `celery:"x"`
	Y int64 `celery:"y"`
}

func add(_ context.Context, in addends) (int64, error) { return in.X + in.Y, nil }

type greeting struct {
	Name     string `celery:"name"`
	Greeting string `celery:"greeting,default=Hello"`
}

func greet(_ context.Context, in greeting) (string, error) {
	return fmt.Sprintf("%s, %s!", in.Greeting, in.Name), nil
}

type failure struct {
	Message string `celery:"message,default=this task always fails"`
}

// valueError is an error that Python sees as its own ValueError.
type valueError struct{ message string }

func (e valueError) Error() string { return e.message }

func (e valueError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{e.message}}
}

func fail(_ context.Context, in failure) (any, error) { return nil, valueError{in.Message} }

var errBusy = errors.New("the other side is busy")

type attempts struct {
	Failures int `celery:"failures,default=2"`
}

// flaky fails a number of times, asks for a retry in a second each time, and
// then succeeds.
func flaky(ctx context.Context, in attempts) (string, error) {
	request, _ := tasks.RequestFrom(ctx)
	if request.Retries < in.Failures {
		return "", tasks.Retry(ctx, errBusy, tasks.Countdown(time.Second))
	}
	return fmt.Sprintf("succeeded after %d retries", request.Retries), nil
}

type number struct {
	N int64 `celery:"n,default=0"`
}

func noop(_ context.Context, in number) (int64, error) { return in.N, nil }
