package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// scaleInterval is the pause between two questions for the depth: KubeMQ's servers
	// look at every queue they have for an answer (docs/protocol.md §16).
	scaleInterval = 5 * time.Second
	// scaleCooldown is how long fewer slots must have been enough before slots are taken
	// away. Celery keeps idle processes as long (AUTOSCALE_KEEPALIVE).
	scaleCooldown = 30 * time.Second
	// depthPatience bounds one question.
	depthPatience = 10 * time.Second
)

// Autoscale has the number of slots follow the depth of the worker's queues: the
// messages that are ready or in flight, at any worker, and what is done here besides
// them: tasks whose message is acked already, and queries. It grows at once, and shrinks when fewer slots have been
// enough for 30 seconds: running tasks are never interrupted. The broker must be a
// transport.Depther.
type Autoscale struct {
	// Min and Max bound the number of slots, 1 ≤ Min ≤ Max.
	Min, Max int
	// TargetDepthPerSlot is how many messages there may be for each slot before there is
	// one more, at least 1.
	TargetDepthPerSlot int
}

// wish is how many slots a depth asks for.
func (a Autoscale) wish(depth int64) int {
	depth, target := max(0, depth), int64(a.TargetDepthPerSlot)
	slots := depth / target
	if depth%target > 0 {
		slots++
	}
	return int(min(max(slots, int64(a.Min)), int64(a.Max)))
}

// scaler keeps the number of slots from following every dent of the depth: it is the
// highest wish of the cool-down.
type scaler struct {
	// wishes are those that can still be the highest: each is higher than all after it.
	wishes []wish
}

type wish struct {
	at    time.Time
	slots int
}

// next takes a wish and returns how many slots there should be.
func (s *scaler) next(now time.Time, slots int) int {
	for len(s.wishes) > 0 && s.wishes[len(s.wishes)-1].slots <= slots {
		s.wishes = s.wishes[:len(s.wishes)-1]
	}
	s.wishes = append(s.wishes, wish{now, slots})
	for now.Sub(s.wishes[0].at) > scaleCooldown {
		s.wishes = s.wishes[1:]
	}
	return s.wishes[0].slots
}

// leastSlots and mostSlots are how many slots there are at the start, and at most.
func (o *Options) leastSlots() int {
	if o.Autoscale != nil {
		return o.Autoscale.Min
	}
	return o.Concurrency
}

func (o *Options) mostSlots() int {
	if o.Autoscale != nil {
		return o.Autoscale.Max
	}
	return o.Concurrency
}

func (o *Options) validateAutoscale(broker transport.Transport) error {
	a := o.Autoscale
	if a == nil {
		return nil
	}
	switch _, tells := broker.(transport.Depther); {
	case a.Min < 1:
		return fmt.Errorf("%w: worker_autoscale.min is %d, at least 1 is needed", ErrOptions, a.Min)
	case a.Max < a.Min:
		return fmt.Errorf("%w: worker_autoscale.max is %d, at least min, %d, is needed", ErrOptions, a.Max, a.Min)
	case a.TargetDepthPerSlot < 1:
		return fmt.Errorf("%w: worker_autoscale.target_depth_per_slot is %d, at least 1 is needed", ErrOptions, a.TargetDepthPerSlot)
	case !tells:
		return fmt.Errorf("%w: worker_autoscale: the broker (%T) doesn't tell how long its queues are", ErrOptions, broker)
	}
	return nil
}

// startAutoscale begins to follow the depth, until the worker stops fetching.
func (w *Worker) startAutoscale() {
	if broker, tells := w.transport.(transport.Depther); tells && w.options.Autoscale != nil {
		w.fetchers.Go(func() { w.autoscale(w.fetchContext, *w.options.Autoscale, broker) })
	}
}

func (w *Worker) autoscale(ctx context.Context, bounds Autoscale, broker transport.Depther) {
	var s scaler
	known := true
	for {
		depth, err := w.depth(ctx, broker)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			w.scale(s.next(time.Now(), bounds.wish(depth)), depth)
		default:
			s.next(time.Now(), w.slots.total()) // as if it were right: nobody knows
			if known {
				w.observe(DepthUnknown{Err: err})
			}
		}
		known = err == nil
		if pause.For(ctx, scaleInterval) != nil {
			return
		}
	}
}

// depth is what the number of slots follows. The broker doesn't count tasks whose
// message is acked, nor queries, but those hold slots, which what comes needs besides.
func (w *Worker) depth(ctx context.Context, broker transport.Depther) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, depthPatience)
	defer cancel()
	depths, err := broker.Depths(ctx, w.options.Queues...)
	if err != nil {
		return 0, fmt.Errorf("worker: ask for the depth of %d queues: %w", len(w.options.Queues), err)
	}
	sum := w.uncounted.Load()
	for _, depth := range depths {
		sum += min(max(0, depth), math.MaxInt64-sum) // what a broker says can be anything
	}
	return sum, nil
}

func (w *Worker) scale(size int, depth int64) {
	before := w.slots.total()
	if size == before {
		return
	}
	w.slots.resize(size)
	w.observe(Scaled{From: before, To: size, Depth: depth})
}
