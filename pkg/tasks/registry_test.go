package tasks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func nothing(context.Context, tasks.Arguments) (any, error) { return nil, nil }

func TestRegistryNames(t *testing.T) {
	r := tasks.NewRegistry()
	require.Empty(t, r.Names())
	for _, name := range []string{"b.two", "a.one", "ü"} {
		tasks.HandleArguments(r, name, nothing)
	}
	require.NoError(t, r.Err())
	require.Equal(t, []string{"a.one", "b.two", "ü"}, r.Names())
	_, ok := r.Lookup("a")
	require.False(t, ok)
}

func TestRegistryMistakes(t *testing.T) {
	cases := map[string]struct {
		register func(*tasks.Registry)
		want     string
	}{
		"no name":   {func(r *tasks.Registry) { tasks.HandleArguments(r, "", nothing) }, "tasks: a task has no name"},
		"nil":       {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nil) }, `tasks: can't register "t": the handler is nil`},
		"nil typed": {func(r *tasks.Registry) { tasks.Handle[tasks.None, int](r, "t", nil) }, `tasks: can't register "t": the handler is nil`},
		"no struct": {func(r *tasks.Registry) {
			tasks.Handle(r, "t", func(context.Context, int) (int, error) { return 0, nil })
		}, `tasks: can't register "t": the handler must take a struct whose fields are the arguments, not int`},
		"untyped":    {func(r *tasks.Registry) { tasks.Handle(r, "t", nothing) }, `tasks: can't register "t": a handler that takes Arguments is registered by HandleArguments`},
		"retries":    {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.MaxRetries(-1)) }, `tasks: can't register "t": MaxRetries(-1): the number must not be negative; RetryForever sets no limit`},
		"delay":      {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.DefaultRetryDelay(-time.Second)) }, `tasks: can't register "t": DefaultRetryDelay(-1s): the delay must not be negative`},
		"limit":      {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.TimeLimit(0)) }, `tasks: can't register "t": TimeLimit(0s): the limit must be positive`},
		"soft limit": {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.SoftTimeLimit(-1)) }, `tasks: can't register "t": SoftTimeLimit(-1ns): the limit must be positive`},
		"serializer": {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.Serializer("")) }, `tasks: can't register "t": Serializer: the name is empty`},
		"throws":     {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.Throws(nil)) }, `tasks: can't register "t": Throws: an error is nil`},
		"flag":       {func(r *tasks.Registry) { tasks.HandleArguments(r, "t", nothing, tasks.AcksLate(true, false)) }, `tasks: can't register "t": an option takes one bool at most, not 2`},
		"middleware": {func(r *tasks.Registry) { r.Use(nil) }, "tasks: middleware is nil"},
		"hook":       {func(r *tasks.Registry) { r.AddHook("no hook") }, "tasks: a hook has none of the methods of a hook, such as OnFailure"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := tasks.NewRegistry()
			c.register(r)
			require.EqualError(t, r.Err(), c.want)
			var mistake *tasks.RegistrationError
			require.ErrorAs(t, r.Err(), &mistake)
			require.Empty(t, r.Names())
		})
	}
}

func TestRegistryDuplicate(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "t", nothing, tasks.MaxRetries(1))
	tasks.HandleArguments(r, "t", nothing, tasks.MaxRetries(2))
	tasks.HandleArguments(r, "", nothing)
	require.ErrorIs(t, r.Err(), tasks.ErrDuplicateTask)
	require.ErrorContains(t, r.Err(), "a task has no name")
	task, ok := r.Lookup("t")
	require.True(t, ok)
	require.Equal(t, 1, task.Options().MaxRetries)
}

func tracing(name string, trace *[]string) tasks.Middleware {
	return func(task *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
		*trace = append(*trace, "made "+name+" for "+task.Name())
		return func(ctx context.Context, args tasks.Arguments) (any, error) {
			*trace = append(*trace, "before "+name)
			result, err := next(ctx, args)
			*trace = append(*trace, "after "+name)
			return result, err
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	var trace []string
	r := tasks.NewRegistry()
	r.Use(tracing("outer", &trace))
	tasks.Handle(r, "proj.add", add)
	r.Use(tracing("inner", &trace))
	task := lookup(t, r, "proj.add")

	_, err := task.Run(t.Context(), tasks.Arguments{Args: []any{int64(1), int64(2)}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"made inner for proj.add", "made outer for proj.add",
		"before outer", "before inner", "after inner", "after outer",
	}, trace)

	// Made once, called again.
	trace = nil
	_, err = task.Run(t.Context(), tasks.Arguments{})
	var argumentError *tasks.ArgumentError
	require.ErrorAs(t, err, &argumentError)
	require.Equal(t, []string{"before outer", "before inner", "after inner", "after outer"}, trace)

	r.Use(tracing("late", &trace))
	require.EqualError(t, r.Err(), "tasks: middleware was added after a task had run")
}

func TestMiddlewarePanics(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "t", nothing)
	r.Use(func(*tasks.Task, tasks.HandlerFunc) tasks.HandlerFunc { panic("while made") })
	task := lookup(t, r, "t")
	for range 2 {
		_, err := task.Run(t.Context(), tasks.Arguments{})
		require.EqualError(t, err, "tasks: panic: while made")
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	r := tasks.NewRegistry()
	r.Use(func(_ *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc { return next })
	tasks.Handle(r, "proj.add", add)
	results := make([]any, 8)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			task, _ := r.Lookup("proj.add")
			results[i], _ = task.Run(t.Context(), tasks.Arguments{Args: []any{int64(i), int64(2)}})
		})
	}
	group.Wait()
	require.Equal(t, []any{2, 3, 4, 5, 6, 7, 8, 9}, results)
}
