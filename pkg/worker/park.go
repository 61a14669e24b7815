package worker

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
)

// minParked is how many deliveries may wait in memory at least.
const minParked = 1000

// parking is where a delivery waits in memory: for the rest of its ETA that is
// shorter than the broker's tick, or for the run of which it is a duplicate. It
// holds no slot there; the places are bounded.
type parking struct{ places chan struct{} }

func newParking(size int) *parking { return &parking{places: make(chan struct{}, size)} }

// park waits for d, or until ctx ends, on a goroutine of its own, and calls due
// with what happened. It is false where there is no place.
func (p *parking) park(ctx context.Context, d time.Duration, due func(waited bool)) bool {
	return p.start(func() { due(pause.For(ctx, d) == nil) })
}

// start calls wait on a goroutine of its own. It is false where there is no place.
func (p *parking) start(wait func()) bool {
	select {
	case p.places <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-p.places }()
		wait()
	}()
	return true
}

// close returns when nobody waits any more, and leaves no place for others. What
// they wait for must have ended, or be about to.
func (p *parking) close() {
	for range cap(p.places) {
		p.places <- struct{}{}
	}
}
