package tasks_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func runPanicking(t *testing.T, handler tasks.HandlerFunc) *tasks.PanicError {
	t.Helper()
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "proj.explode", handler)
	require.NoError(t, r.Err())
	task, ok := r.Lookup("proj.explode")
	require.True(t, ok)

	result, err := task.Run(t.Context(), tasks.Arguments{})

	require.Nil(t, result)
	var panicked *tasks.PanicError
	require.ErrorAs(t, err, &panicked)
	return panicked
}

func indexOutOfRange(list []int, i int) int { return list[i] }

func TestPanicKeepsTypeAndStack(t *testing.T) {
	panicked := runPanicking(t, func(context.Context, tasks.Arguments) (any, error) {
		return indexOutOfRange([]int{1, 2, 3}, 5), nil
	})

	require.Equal(t, protocol.Exception{
		Type:   "PanicError",
		Module: "go.panic",
		Args:   []any{"runtime error: index out of range [5] with length 3", "runtime.boundsError"},
	}, tasks.ExceptionOf(panicked))
	lines := strings.Split(panicked.Stack, "\n")
	require.Contains(t, lines[0], "indexOutOfRange", panicked.Stack)
	require.Contains(t, lines[1], "panic_test.go:")
	require.NotContains(t, panicked.Stack, "runtime.")
	require.NotContains(t, panicked.Stack, "testing.tRunner")

	traceback := tasks.Traceback(panicked)
	require.True(t, strings.HasPrefix(traceback, "Traceback (most recent call last):\n  File \""), traceback)
	require.Regexp(t, `in .*indexOutOfRange\ngo\.panic\.PanicError: \('runtime error: .*', 'runtime\.boundsError'\)\n$`, traceback)
}

func TestPanicValues(t *testing.T) {
	type order struct{ ID int }
	cases := map[string]struct {
		value any
		args  []any
	}{
		"text":   {"boom", []any{"boom", "string"}},
		"error":  {errors.New("boom"), []any{"boom", "*errors.errorString"}},
		"struct": {order{7}, []any{"{7}", "tasks_test.order"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			panicked := runPanicking(t, func(context.Context, tasks.Arguments) (any, error) { panic(c.value) })
			require.Equal(t, c.value, panicked.Value)
			require.Equal(t, c.args, tasks.ExceptionOf(panicked).Args)
		})
	}
}

func setEntry(m map[string]int) { m["x"] = 1 }

func TestPanicOfNil(t *testing.T) {
	panicked := runPanicking(t, func(context.Context, tasks.Arguments) (any, error) {
		setEntry(nil)
		return nil, nil
	})
	require.ErrorContains(t, panicked, "nil map")
	require.Contains(t, strings.Split(panicked.Stack, "\n")[0], "setEntry")
}

// A deep recursion must not make a result of megabytes.
func TestPanicStackIsBounded(t *testing.T) {
	var deep func(n int) int
	deep = func(n int) int {
		if n == 0 {
			panic("bottom")
		}
		return deep(n-1) + 1
	}
	panicked := runPanicking(t, func(context.Context, tasks.Arguments) (any, error) { return deep(10_000), nil })
	require.Less(t, len(panicked.Stack), 64*300)
	require.Contains(t, panicked.Stack, "panic_test.go")
}

// A panic with Retry's error is a bug of the handler, not a retry.
func TestPanicIsNoOutcome(t *testing.T) {
	panicked := runPanicking(t, func(ctx context.Context, _ tasks.Arguments) (any, error) {
		panic(tasks.Retry(tasks.WithRequest(ctx, &tasks.Request{MaxRetries: 3}), nil))
	})
	_, ok := tasks.OutcomeOf(panicked)
	require.False(t, ok)
}

// A deferred function that panics again hides neither panic.
func TestPanicWhilePanicking(t *testing.T) {
	panicked := runPanicking(t, func(context.Context, tasks.Arguments) (any, error) {
		defer func() { setEntry(nil) }()
		return indexOutOfRange(nil, 1), nil
	})
	require.ErrorContains(t, panicked, "nil map")
	require.Contains(t, strings.Split(panicked.Stack, "\n")[0], "setEntry")
	require.Contains(t, panicked.Stack, "indexOutOfRange")
}
