package worker

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// tellingBroker is a fakeBroker that tells its depths.
type tellingBroker struct {
	*fakeBroker
	mu     sync.Mutex
	depths map[string]int64
	err    error
	asked  int
}

func (b *tellingBroker) Depths(context.Context, ...string) (map[string]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return b.depths, b.err
}

func (b *tellingBroker) tell(depths map[string]int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.depths, b.err = depths, err
}

// celeryHas makes n the depth of the queue "celery".
func (b *tellingBroker) celeryHas(n int64) { b.tell(map[string]int64{"celery": n}, nil) }

// scaled is a harness whose worker scales between 1 and 10 slots.
func scaled(t *testing.T, test func(h *harness, broker *tellingBroker)) {
	t.Helper()
	inBubble(t, func(h *harness) {
		h.options.Concurrency = 0
		h.options.Autoscale = &Autoscale{Min: 1, Max: 10, TargetDepthPerSlot: 1}
		test(h, &tellingBroker{fakeBroker: h.broker})
	})
}

func (h *harness) startScaled(broker *tellingBroker) {
	h.t.Helper()
	w, err := New(h.options, h.registry, broker, h.backend, h.recorder)
	require.NoError(h.t, err)
	require.NoError(h.t, w.Start(context.Background()))
	h.worker = w
	synctest.Wait()
}

// scalings are the events of the autoscaler so far.
func (h *harness) scalings() []Event {
	var events []Event
	for _, event := range seen[Event](h.recorder) {
		switch event.(type) {
		case Scaled, DepthUnknown:
			events = append(events, event)
		}
	}
	return events
}

func TestAutoscaleFollowsTheDepth(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		h.options.Queues = []string{"celery", "mail"}
		broker.tell(map[string]int64{"celery": 2, "mail": 1}, nil)
		h.startScaled(broker)
		require.Equal(t, 3, h.worker.Load().Slots, "looked at when it starts")

		broker.celeryHas(1_000_000)
		elapse(scaleInterval + time.Second)
		require.Equal(t, 10, h.worker.Load().Slots, "grows at once")

		broker.celeryHas(0)
		elapse(scaleCooldown - time.Second)
		require.Equal(t, 10, h.worker.Load().Slots, "not yet")
		elapse(2*scaleInterval + time.Second)
		require.Equal(t, 1, h.worker.Load().Slots)
		require.Equal(t, []Event{
			Scaled{From: 1, To: 3, Depth: 3}, Scaled{From: 3, To: 10, Depth: 1_000_000}, Scaled{From: 10, To: 1, Depth: 0},
		}, h.scalings())
	})
}

func TestAutoscaleKeepsTheNumberWhileTheBrokerTellsNothing(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		away := errors.New("away")
		broker.celeryHas(5)
		h.startScaled(broker)
		broker.tell(nil, away)
		elapse(10*scaleCooldown + time.Second)
		require.Equal(t, 5, h.worker.Load().Slots)
		events := h.scalings()
		require.Len(t, events, 2, "one event for an outage")
		unknown, ok := events[1].(DepthUnknown)
		require.True(t, ok)
		require.ErrorIs(t, unknown.Err, away)

		broker.celeryHas(1)
		elapse(scaleCooldown - time.Second)
		require.Equal(t, 5, h.worker.Load().Slots, "a cool-down begins when it tells again")
		elapse(3*scaleInterval + time.Second)
		require.Equal(t, 1, h.worker.Load().Slots)

		broker.tell(nil, away)
		elapse(2*scaleInterval + time.Second)
		require.IsType(t, DepthUnknown{}, h.scalings()[3], "another outage")
	})
}

// TestAutoscaleShrinksWithoutInterrupting: tasks that run go on when their slots are
// taken away, and no other begins before there are fewer than slots.
func TestAutoscaleShrinksWithoutInterrupting(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		h.options.AcksLate = true
		release := make(chan struct{})
		defer close(release)
		var running, cancelled atomic.Int64
		h.handle("hold", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
				cancelled.Add(1)
			}
			return nil, nil
		})
		broker.celeryHas(4)
		h.startScaled(broker)
		for range 4 {
			h.send(protocol.Message{Task: "hold"})
		}
		synctest.Wait()
		require.EqualValues(t, 4, running.Load())

		broker.celeryHas(0) // as of a broker that counts only what is ready
		elapse(scaleCooldown + 2*scaleInterval + time.Second)
		require.Equal(t, Load{Slots: 1, Busy: 4, Delivered: h.worker.Load().Delivered}, h.worker.Load())
		h.send(protocol.Message{Task: "hold"})
		for left := int64(3); left >= 1; left-- {
			release <- struct{}{}
			synctest.Wait()
			require.Equal(t, left, running.Load(), "nothing begins while there are too many")
		}
		release <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 1, running.Load(), "the slot that is left takes the next")
		release <- struct{}{}
		synctest.Wait()
		require.Zero(t, cancelled.Load())
	})
}

// TestAutoscaleCountsAckedTasks: the broker doesn't know of a task that was acked early,
// but it has a slot. What comes next needs another.
func TestAutoscaleCountsAckedTasks(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		release := make(chan struct{})
		defer close(release)
		h.handle("hold", func(context.Context, tasks.Arguments) (any, error) { <-release; return nil, nil })
		broker.celeryHas(3)
		h.startScaled(broker)
		for range 3 {
			h.send(protocol.Message{Task: "hold"})
		}
		synctest.Wait()
		broker.celeryHas(0)
		elapse(10*scaleCooldown + time.Second)
		require.Equal(t, 3, h.worker.Load().Slots)
		broker.celeryHas(1)
		h.send(protocol.Message{Task: "hold"})
		elapse(scaleInterval + time.Second)
		require.Equal(t, 4, h.worker.Load().Busy)
		broker.celeryHas(0)
		for range 4 {
			release <- struct{}{}
		}
		elapse(scaleCooldown + 2*scaleInterval + time.Second)
		require.Equal(t, 1, h.worker.Load().Slots)
	})
}

// TestAutoscaleCountsQueries: they are in no queue, but they want slots, too.
func TestAutoscaleCountsQueries(t *testing.T) {
	inRayBubble(t, threeTimes, func(h *rayHarness) {
		h.options.Concurrency = 0
		h.options.Autoscale = &Autoscale{Min: 1, Max: 10, TargetDepthPerSlot: 1}
		h.handle("minute", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Minute); return "ok", nil })
		h.startScaled(&tellingBroker{fakeBroker: h.broker})
		require.Contains(t, h.journal.all(), "respond models 10", "as many at once as there may be slots")
		var answered sync.WaitGroup
		for range 3 {
			answered.Go(func() {
				if _, ok := h.ask(10*time.Minute, "minute"); !ok {
					t.Error("no answer")
				}
			})
		}
		elapse(scaleInterval + time.Second)
		require.Equal(t, 3, h.worker.Load().Busy)
		answered.Wait()
		elapse(scaleCooldown + 2*scaleInterval + time.Second)
		require.Equal(t, 1, h.worker.Load().Slots)
	})
}

// TestAutoscaleTakesLentSlotsBack: an idle consumer holds slots in case something comes;
// after a shrink it must not get more messages than there are slots.
func TestAutoscaleTakesLentSlotsBack(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		h.options.AcksLate = true
		h.handle("hold", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Minute); return nil, nil })
		broker.celeryHas(10)
		h.startScaled(broker)
		h.worker.slots.resize(2) // as the autoscaler does
		for range 10 {
			h.send(protocol.Message{Task: "hold"})
		}
		synctest.Wait()
		require.Equal(t, 2, h.worker.Load().Busy)
		h.worker.slots.resize(7)
		synctest.Wait()
		require.Equal(t, 7, h.worker.Load().Busy)
	})
}

func TestAutoscaleStopsWithTheWorker(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		h.startScaled(broker)
		require.NoError(t, h.worker.Stop(context.Background()))
		broker.mu.Lock()
		before := broker.asked
		broker.mu.Unlock()
		elapse(time.Hour)
		require.Equal(t, before, broker.asked)
	})
}

func TestDepthOfABrokerThatLies(t *testing.T) {
	scaled(t, func(h *harness, broker *tellingBroker) {
		broker.tell(map[string]int64{"a": math.MaxInt64, "b": math.MaxInt64, "c": -5}, nil)
		h.startScaled(broker)
		require.Equal(t, []Event{Scaled{From: 1, To: 10, Depth: math.MaxInt64}}, h.scalings())
	})
}

func TestAutoscaleOptions(t *testing.T) {
	for name, c := range map[string]struct {
		autoscale Autoscale
		problem   string
	}{
		"no slot":         {Autoscale{0, 4, 1}, "worker_autoscale.min is 0, at least 1"},
		"max below min":   {Autoscale{5, 4, 1}, "worker_autoscale.max is 4, at least min, 5,"},
		"no target":       {Autoscale{1, 4, 0}, "worker_autoscale.target_depth_per_slot is 0, at least 1"},
		"a silent broker": {Autoscale{1, 4, 1}, "*worker.fakeBroker) doesn't tell"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.options.Autoscale = &c.autoscale
			_, err := New(h.options, h.registry, h.broker, h.backend)
			require.ErrorIs(t, err, ErrOptions)
			require.ErrorContains(t, err, c.problem)
		})
	}
}

// TestAutoscaleStorm: whatever the depth does, each task runs once, never more at a time
// than Max, and no slot is lost.
func TestAutoscaleStorm(t *testing.T) {
	for seed := range uint64(20) {
		scaled(t, func(h *harness, broker *tellingBroker) {
			const messages = 300
			random := rand.New(rand.NewPCG(seed, 1))
			h.options.AcksLate = seed%2 == 0
			var running, most, done atomic.Int64
			h.handle("work", func(_ context.Context, arguments tasks.Arguments) (any, error) {
				defer done.Add(1)
				defer running.Add(-1)
				raise(&most, running.Add(1))
				milliseconds, _ := arguments.Args[0].(int64)
				elapse(time.Duration(milliseconds) * time.Millisecond)
				return nil, nil
			})
			h.startScaled(broker)
			for range messages {
				h.send(protocol.Message{Task: "work", Args: []any{random.IntN(20_000)}})
			}
			for done.Load() < messages {
				broker.celeryHas(random.Int64N(15))
				if random.IntN(10) == 0 {
					broker.tell(nil, errors.New("away"))
				}
				elapse(time.Duration(random.IntN(60)) * time.Second)
			}
			synctest.Wait()
			require.EqualValues(t, messages, done.Load(), "seed %d", seed)
			require.LessOrEqual(t, most.Load(), int64(10), "seed %d", seed)
			require.NoError(t, h.worker.Stop(context.Background()))
			require.Equal(t, h.worker.slots.total(), h.worker.slots.free, "seed %d: a slot is missing", seed)
			require.Zero(t, h.worker.uncounted.Load(), "seed %d", seed)
		})
	}
}
