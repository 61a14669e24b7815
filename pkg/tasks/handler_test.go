package tasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

type addition struct{ X, Y int }

func add(_ context.Context, in addition) (int, error) { return in.X + in.Y, nil }

func lookup(t *testing.T, r *tasks.Registry, name string) *tasks.Task {
	t.Helper()
	require.NoError(t, r.Err())
	task, ok := r.Lookup(name)
	require.True(t, ok)
	return task
}

func TestTypedHandler(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.add", add)
	task := lookup(t, r, "proj.add")
	require.Equal(t, "proj.add", task.Name())

	result, err := task.Run(t.Context(), tasks.Arguments{Args: []any{int64(2)}, Kwargs: map[string]any{"y": int64(3)}})
	require.NoError(t, err)
	require.Equal(t, 5, result)
}

func TestTypedHandlerArgumentError(t *testing.T) {
	ran := false
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.add", func(_ context.Context, _ addition) (int, error) {
		ran = true
		return 0, nil
	})

	result, err := lookup(t, r, "proj.add").Run(t.Context(), tasks.Arguments{Args: []any{int64(2)}})

	require.Nil(t, result)
	require.False(t, ran)
	require.EqualError(t, err, "tasks: add() missing 1 required positional argument: 'y'")
	var argumentError *tasks.ArgumentError
	require.ErrorAs(t, err, &argumentError)
	require.Equal(t, protocol.Exception{
		Type: "TypeError", Module: "builtins",
		Args: []any{"add() missing 1 required positional argument: 'y'"},
	}, tasks.ExceptionOf(err))
}

func TestHandlerWithoutArgumentsOrResult(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.ping", func(context.Context, tasks.None) (tasks.None, error) { return tasks.None{}, nil })
	task := lookup(t, r, "proj.ping")

	result, err := task.Run(t.Context(), tasks.Arguments{})
	require.NoError(t, err)
	require.Nil(t, result)

	_, err = task.Run(t.Context(), tasks.Arguments{Args: []any{int64(1)}})
	require.EqualError(t, err, "tasks: ping() takes 0 positional arguments but 1 was given")
}

func TestHandlerErrorDropsResult(t *testing.T) {
	failure := errors.New("no")
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.half", func(context.Context, tasks.None) (int, error) { return 1, failure })
	result, err := lookup(t, r, "proj.half").Run(t.Context(), tasks.Arguments{})
	require.Nil(t, result)
	require.ErrorIs(t, err, failure)
}

func TestUntypedHandler(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "proj.echo", func(_ context.Context, args tasks.Arguments) (any, error) {
		return []any{args.Args, args.Kwargs}, nil
	})
	args := tasks.Arguments{Args: []any{int64(1)}, Kwargs: map[string]any{"k": nil}}
	result, err := lookup(t, r, "proj.echo").Run(t.Context(), args)
	require.NoError(t, err)
	require.Equal(t, []any{args.Args, args.Kwargs}, result)
}

func TestHandlerSeesRequest(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.id", func(ctx context.Context, _ tasks.None) (string, error) {
		request, ok := tasks.RequestFrom(ctx)
		if !ok {
			return "", errors.New("no request")
		}
		return request.ID, nil
	})
	task := lookup(t, r, "proj.id")
	result, err := task.Run(tasks.WithRequest(t.Context(), &tasks.Request{ID: "42", ETA: time.Now()}), tasks.Arguments{})
	require.NoError(t, err)
	require.Equal(t, "42", result)

	_, err = task.Run(tasks.WithRequest(t.Context(), nil), tasks.Arguments{})
	require.EqualError(t, err, "no request")
}
