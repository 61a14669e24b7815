package kubemq

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// switchable is a connection that a test takes away.
type switchable struct{ atomic.Bool }

func (s *switchable) ping(context.Context) error {
	if s.Load() {
		return errors.New("away")
	}
	return nil
}

func (s *switchable) dropped(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

// TestHeartbeatNoticesLoss: an idle transport asks by itself.
func TestHeartbeatNoticesLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var record recorder
		var away switchable
		l := newLink(away.ping, away.dropped, 0, record.hooks())
		require.NoError(t, l.start(t.Context()))
		lost := l.lost()
		<-time.After(10 * heartbeat)
		synctest.Wait()
		require.Empty(t, record.calls)

		away.Store(true)
		begun := time.Now()
		<-lost
		require.LessOrEqual(t, time.Since(begun), heartbeat)
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.ErrorIs(t, l.await(waiting), context.DeadlineExceeded)
		cancel()
		away.Store(false)
		require.NoError(t, l.await(t.Context()))
		require.True(t, record.has("lost", "retrying", "restored"))
		l.stop()
	})
}

// TestReconnectWaits: capped, spread, for ever.
func TestReconnectWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := connect(ctx, func(context.Context) error {
			at = append(at, time.Now())
			return errors.New("away")
		}, 0, (&recorder{}).hooks())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "away")
		require.Greater(t, len(at), 3600/8)
		different := make(map[time.Duration]bool)
		for i := 1; i < len(at); i++ {
			wait := at[i].Sub(at[i-1])
			require.LessOrEqual(t, wait, 7500*time.Millisecond)
			if i > 10 {
				require.GreaterOrEqual(t, wait, 2500*time.Millisecond)
			}
			different[wait] = true
		}
		require.Greater(t, len(different), len(at)/2)
		require.Less(t, at[1].Sub(at[0]), 80*time.Millisecond, "the first comes soon")
	})
}
