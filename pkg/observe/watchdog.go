package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/worker"
)

// looks is how many times within its limit a Watchdog looks.
const looks = 4

// WatchdogConfig says what a Watchdog watches.
type WatchdogConfig struct {
	// Limit is how long nothing may come although there is something; more than 0.
	Limit time.Duration
	// Queues are the queues that the worker consumes.
	Queues []string
	// Load is the worker's.
	Load func() worker.Load
	// Oldest asks the broker for the id of the message of a queue that was ready
	// first, "" if none is. It is asked only when nothing came for half the limit
	// though slots are free.
	Oldest func(ctx context.Context, queue string) (id string, err error)
}

// Watchdog notices a worker that seems well and consumes nothing: slots are free, a
// message waits, and none was delivered for the limit. Workers of other kinds are
// known to end up so after a lost connection. It notices by itself when messages
// come again.
type Watchdog struct {
	config  WatchdogConfig
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// seen is the oldest message of each queue at the last look.
	seen map[string]string
	// stalled is the queue that has a message nobody takes, since when.
	stalled string
	since   time.Time
}

// NewWatchdog makes a watchdog that isn't running.
func NewWatchdog(config WatchdogConfig) *Watchdog {
	return &Watchdog{config: config, cancel: func() {}, seen: map[string]string{}}
}

// Start watches until Stop, or until ctx ends.
func (w *Watchdog) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.since = time.Now()
	w.running.Go(func() {
		ticker := time.NewTicker(max(w.config.Limit/looks, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.look(ctx)
			}
		}
	})
}

// Stop ends the watching and waits for it.
func (w *Watchdog) Stop() {
	w.cancel()
	w.running.Wait()
}

// Err is nil, or says that the worker is stalled.
func (w *Watchdog) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalled == "" || w.idle() < w.config.Limit {
		return nil
	}
	return fmt.Errorf("observe: queue %q has messages, slots are free, and nothing came for %s",
		w.stalled, w.idle().Round(time.Second))
}

// idle is how long nothing came although slots are free. The caller holds mu.
func (w *Watchdog) idle() time.Duration {
	load := w.config.Load()
	if load.Busy >= load.Slots {
		w.since = time.Now()
	}
	if load.Delivered.After(w.since) {
		w.since = load.Delivered
	}
	return time.Since(w.since)
}

// look asks for the oldest message of each queue. One that was there at the last
// look too is one that nobody takes: a message that has just come doesn't count.
// Where the broker doesn't answer the connection is to blame, not the worker.
func (w *Watchdog) look(ctx context.Context) {
	w.mu.Lock()
	idle := w.idle()
	w.mu.Unlock()
	found, stalled := map[string]string{}, ""
	if idle >= w.config.Limit/2 {
		ctx, cancel := context.WithTimeout(ctx, w.config.Limit/looks)
		defer cancel()
		for _, queue := range w.config.Queues {
			if id, err := w.config.Oldest(ctx, queue); err == nil && id != "" {
				found[queue] = id
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for queue, id := range found {
		if w.seen[queue] == id {
			stalled = queue
		}
	}
	w.seen, w.stalled = found, stalled
}
