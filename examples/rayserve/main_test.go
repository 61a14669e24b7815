package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs a task as a worker does, and returns how far it said it had come.
func call(ctx context.Context, t *testing.T, name string, arguments tasks.Arguments) (result any, told []float64, err error) {
	t.Helper()
	r := registry()
	require.NoError(t, r.Err())
	task, known := r.Lookup(name)
	require.True(t, known, name)
	ctx = tasks.WithProgress(ctx, func(_ context.Context, percent float64, _ string) error {
		told = append(told, percent)
		return nil
	})
	result, err = task.Run(ctx, arguments)
	return result, told, err
}

func TestPredict(t *testing.T) {
	t.Parallel()
	result, told, err := call(t.Context(), t, "predict", tasks.Arguments{Args: []any{"What a day! Wonderful!"}})
	require.NoError(t, err)
	require.Equal(t, Prediction{Label: "cheerful", Score: 0.8125}, result)
	require.Equal(t, []float64{25, 50, 75, 100}, told)

	result, _, err = call(t.Context(), t, "predict", tasks.Arguments{Args: []any{"it rains"}})
	require.NoError(t, err)
	require.Equal(t, "dull", result.(Prediction).Label)
}

func TestNothingToPredict(t *testing.T) {
	t.Parallel()
	_, _, err := call(t.Context(), t, "predict", tasks.Arguments{Kwargs: map[string]any{"text": " "}})
	require.ErrorIs(t, err, errNoText)
	require.Equal(t, "ValueError", tasks.ExceptionOf(err).Type)
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tasks.ErrTaskCancelled)
	_, told, err := call(ctx, t, "predict", tasks.Arguments{Args: []any{"too late"}})
	require.ErrorIs(t, err, tasks.ErrTaskCancelled)
	require.Empty(t, told)
}

func TestThank(t *testing.T) {
	t.Parallel()
	result, _, err := call(t.Context(), t, "shop.thank", tasks.Arguments{Args: []any{"Ada"}})
	require.NoError(t, err)
	require.Equal(t, "Thank you, Ada!", result)
	require.NoError(t, registry().Hooks().DeadLetter(t.Context(), "id", errNoText))
}
