package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lovage-project/lovage/pkg/internal/pause"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		require.NoError(t, pause.For(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(begun))

		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(reason) })
		require.ErrorIs(t, pause.For(ctx, time.Hour), reason)
		require.Equal(t, time.Hour+time.Minute, time.Since(begun))
	})
}
