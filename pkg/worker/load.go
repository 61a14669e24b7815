package worker

import (
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Load is what a worker has to do at a moment.
type Load struct {
	// Slots is how many tasks may run at once, Busy how many slots have one: more, for
	// a while, after slots were taken away.
	Slots, Busy int
	// Delivered is when the broker last handed a message over, zero if never.
	Delivered time.Time
}

// Load tells how busy the worker is. It may be called at any time, also before
// Start.
func (w *Worker) Load() Load {
	load := Load{Slots: w.slots.total(), Busy: int(w.pool.busy.Load())}
	if last := w.delivered.Load(); last != 0 {
		load.Delivered = time.Unix(0, last)
	}
	return load
}

// queued is when a message became ready, where the broker tells.
func queued(delivery transport.Delivery) time.Time {
	if dated, ok := delivery.(transport.Dated); ok {
		return dated.Queued()
	}
	return time.Time{}
}
