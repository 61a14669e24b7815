package main

import (
	"context"
	"strings"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerArguments registers tasks that show how a call's arguments are bound.
func registerArguments(r *tasks.Registry) {
	tasks.Handle(r, "interop.add", add)
	tasks.Handle(r, "interop.greet", greet)
	tasks.Handle(r, "interop.variadic", variadic)
	tasks.Handle(r, "interop.noop", noop)
	tasks.HandleArguments(r, "interop.echo", echo)
	tasks.Handle(r, "interop.request", describeRequest)
}

type addInput struct {
	X int64 `celery:"x"`
	Y int64 `celery:"y"`
}

func add(_ context.Context, in addInput) (int64, error) {
	return in.X + in.Y, nil
}

type greetInput struct {
	Name     string `celery:"name"`
	Greeting string `celery:"greeting,default=Hello"`
	Times    int    `celery:"times,default=1"`
}

func greet(_ context.Context, in greetInput) (string, error) {
	return strings.Repeat(in.Greeting+", "+in.Name+"! ", in.Times), nil
}

type variadicInput struct {
	First  any            `celery:"first"`
	Rest   []any          `celery:",args"`
	Others map[string]any `celery:",kwargs"`
}

func variadic(_ context.Context, in variadicInput) (map[string]any, error) {
	return map[string]any{"first": in.First, "rest": in.Rest, "others": in.Others}, nil
}

func noop(context.Context, struct{}) (any, error) {
	return nil, nil
}

// echo is def echo(*args, **kwargs): every value comes back as it was decoded.
func echo(_ context.Context, arguments tasks.Arguments) (any, error) {
	return []any{arguments.Args, arguments.Kwargs}, nil
}

// describeRequest returns what a handler can know about its own message.
func describeRequest(ctx context.Context, _ struct{}) (map[string]any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"id":       request.ID,
		"task":     request.Task,
		"retries":  request.Retries,
		"queue":    request.Queue,
		"attempt":  request.Attempt,
		"priority": request.Priority,
	}, nil
}
