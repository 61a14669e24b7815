package tasks_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func TestProgress(t *testing.T) {
	require.ErrorIs(t, tasks.Progress(t.Context(), 50, ""), tasks.ErrNotInWorker)

	away := errors.New("away")
	var told []any
	ctx := tasks.WithProgress(t.Context(), func(_ context.Context, percent float64, detail string) error {
		told = append(told, percent, detail)
		return away
	})
	require.ErrorIs(t, tasks.Progress(ctx, 12.5, "half a quarter"), away)
	for _, percent := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.ErrorContains(t, tasks.Progress(ctx, percent, ""), "not a finite number")
	}
	require.Equal(t, []any{12.5, "half a quarter"}, told)
}
