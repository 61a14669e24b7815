package observe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/worker"
)

// watched is a worker and its broker as a watchdog sees them.
type watched struct {
	mu     sync.Mutex
	load   worker.Load
	oldest string
	err    error
	asked  int
}

func (w *watched) set(change func(*watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *watched) config() WatchdogConfig {
	return WatchdogConfig{
		Limit: 30 * time.Second, Queues: []string{"q"},
		Load: func() worker.Load { w.mu.Lock(); defer w.mu.Unlock(); return w.load },
		Oldest: func(context.Context, string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.oldest, w.err
		},
	}
}

// watch runs a test with a watchdog in a bubble, where time costs nothing.
func watch(t *testing.T, test func(t *testing.T, w *watched, dog *Watchdog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{load: worker.Load{Slots: 2}}
		dog := NewWatchdog(w.config())
		dog.Start(t.Context())
		defer dog.Stop()
		test(t, w, dog)
	})
}

// after lets time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestWatchdogNoticesAStallAndItsEnd(t *testing.T) {
	watch(t, func(t *testing.T, w *watched, dog *Watchdog) {
		t.Helper()
		w.set(func(w *watched) { w.oldest = "m1" })
		after(29 * time.Second)
		require.NoError(t, dog.Err())
		after(2 * time.Second)
		require.ErrorContains(t, dog.Err(), `queue "q" has messages, slots are free, and nothing came for 31s`)

		w.set(func(w *watched) { w.load.Delivered = time.Now() })
		require.NoError(t, dog.Err(), "at once")
		after(29 * time.Second)
		require.NoError(t, dog.Err())
		after(9 * time.Second)
		require.Error(t, dog.Err(), "again")
	})
}

func TestWatchdogLeavesAlone(t *testing.T) {
	for name, begin := range map[string]func(*watched){
		"an empty queue":      func(*watched) {},
		"a busy worker":       func(w *watched) { w.oldest, w.load.Busy = "m1", 2 },
		"a broker that fails": func(w *watched) { w.oldest, w.err = "m1", errors.New("away") },
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(t *testing.T, w *watched, dog *Watchdog) {
				t.Helper()
				w.set(begin)
				for range 30 {
					after(10 * time.Second)
					require.NoError(t, dog.Err())
				}
			})
		})
	}
	t.Run("a queue where messages go to others", func(t *testing.T) {
		watch(t, func(t *testing.T, w *watched, dog *Watchdog) {
			t.Helper()
			for i := range 300 {
				w.set(func(w *watched) { w.oldest = string(rune('a' + i)) })
				after(time.Second)
				require.NoError(t, dog.Err())
			}
		})
	})
}

// TestWatchdogAsksOnlyAnIdleWorkersBroker.
func TestWatchdogAsksOnlyAnIdleWorkersBroker(t *testing.T) {
	watch(t, func(t *testing.T, w *watched, _ *Watchdog) {
		t.Helper()
		for range 600 {
			w.set(func(w *watched) { w.load.Delivered = time.Now() })
			after(time.Second)
		}
		w.set(func(w *watched) { require.Zero(t, w.asked) })
	})
}
