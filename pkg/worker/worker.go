package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// cancelGrace is how long cancelled handlers get to return before Stop gives up
// on them.
const cancelGrace = 5 * time.Second

// Worker consumes queues and runs the tasks of a registry. New, Start, Stop; it
// can't be started twice.
type Worker struct {
	options   Options
	registry  *tasks.Registry
	transport transport.Transport
	backend   results.Backend // nil: results are disabled
	observers []Observer
	accept    protocol.Accept
	publisher canvas.Publisher

	slots  *slots
	pool   *pool
	parked *parking // for their ETA
	held   *parking // duplicates, for the run that has the claim
	window *window

	// fetchContext ends when the worker stops fetching, workContext when running
	// handlers are cancelled. Settling goes on under neither, in settleContext, which
	// doesn't end.
	fetchContext, workContext, settleContext context.Context //nolint:containedctx // the lifetimes of the engine, made by Start
	stopFetch, cancelWork                    context.CancelCauseFunc

	consumers  []transport.Consumer
	responders []transport.Subscription
	fetchers   sync.WaitGroup // and the autoscaler
	running    atomic.Bool
	delivered  atomic.Int64 // when the last message came, Unix nanoseconds
	refused    atomic.Int32 // how many queues the broker refuses requests for
	// uncounted is how many tasks want or have a slot that the depth of the queues
	// doesn't count: those whose message is acked, and queries.
	uncounted atomic.Int64
	stopOnce  sync.Once
	finished  chan struct{} // closed when everything is settled
	abandoned atomic.Bool   // Stop has given up on handlers
}

// New makes a worker. The transport and the backend (nil = results disabled)
// belong to the caller, who starts them before Start and stops them after Stop.
// It returns ErrOptions for settings it can't have and the registry's errors.
func New(
	options Options, registry *tasks.Registry, broker transport.Transport, backend results.Backend, observers ...Observer,
) (*Worker, error) {
	if err := registry.Err(); err != nil {
		return nil, err
	}
	if err := options.validateAutoscale(broker); err != nil {
		return nil, err
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	accept, err := protocol.NewAccept(options.AcceptContent)
	if err != nil {
		return nil, fmt.Errorf("%w: accept_content: %w", ErrOptions, err)
	}
	w := &Worker{
		options: options, registry: registry, transport: broker, backend: backend, observers: observers,
		accept: accept, publisher: publisherOf(options), slots: newSlots(options.leastSlots()), finished: make(chan struct{}),
	}
	w.pool = newPool(options.mostSlots(), w.process, func(j *job) { j.share.release(1) })
	w.parked = newParking(max(minParked, options.mostSlots()))
	w.held = newParking(max(minParked, options.mostSlots()))
	w.window = newWindow(options.DedupWindow)
	return w, nil
}

// Start opens a consumer for each queue and returns once the worker consumes. A
// queue the broker can't have is transport.ErrName. Cancelling ctx is a warm
// shutdown; Stop must be called all the same.
func (w *Worker) Start(ctx context.Context) error {
	w.fetchContext, w.stopFetch = context.WithCancelCause(ctx)
	w.workContext, w.cancelWork = context.WithCancelCause(context.WithoutCancel(ctx))
	w.settleContext = context.WithoutCancel(ctx)
	for _, queue := range w.options.Queues {
		consumer, err := w.transport.Consumer(queue)
		if err != nil {
			w.stopFetch(ErrShutdown)
			w.cancelWork(ErrShutdown)
			return errors.Join(fmt.Errorf("worker: consume %q: %w", queue, err), w.closeConsumers())
		}
		w.consumers = append(w.consumers, consumer)
	}
	if err := w.respond(); err != nil {
		w.stopFetch(ErrShutdown)
		w.cancelWork(ErrShutdown)
		err = errors.Join(err, w.closeResponders())
		w.pool.close() // some queue's queries may have run
		return errors.Join(err, w.closeConsumers())
	}
	for i, queue := range w.options.Queues {
		f := &fetcher{
			worker: w, queue: queue, consumer: w.consumers[i], dialect: w.dialectOf(queue), share: w.slots.share(),
			alone: len(w.options.Queues) == 1,
		}
		w.fetchers.Go(func() { f.run(w.fetchContext) })
	}
	w.running.Store(true)
	w.startAutoscale()
	w.tellAcksLateIgnored()
	w.tellNoRetryCeiling()
	w.observe(Started{
		Hostname: w.options.Hostname, Queues: w.options.Queues, Concurrency: w.slots.total(),
		Tasks: w.registry.Names(),
	})
	return nil
}

// Consuming tells whether the worker fetches messages: it runs, and the broker refuses
// the requests for none of its queues.
func (w *Worker) Consuming() bool {
	return w.running.Load() && w.fetchContext.Err() == nil && w.refused.Load() == 0
}

// Stop is Celery's warm shutdown: it stops fetching at once, hands back what has
// not started, waits until the running tasks are finished and settled, and
// closes the consumers. It is idempotent and may be called from several
// goroutines. When ctx ends first, running tasks are cancelled as by Cancel and
// get five seconds; those that don't return then are left behind, their messages
// unsettled, and Stop returns an error.
func (w *Worker) Stop(ctx context.Context) error {
	if !w.running.Load() {
		return nil
	}
	w.stopOnce.Do(func() {
		w.observe(Stopping{})
		w.stopFetch(ErrShutdown)
		go w.drain()
	})
	select {
	case <-w.finished:
		return nil
	case <-ctx.Done():
	}
	if w.hasEnded() {
		return nil // both: whoever stops it once more may give it no time
	}
	w.Cancel()
	patience := cancelGrace
	if w.abandoned.Load() {
		patience = 0 // they had their time
	}
	grace := time.NewTimer(patience)
	defer grace.Stop()
	select {
	case <-w.finished:
		return nil
	case <-grace.C:
		w.abandoned.Store(true)
		return fmt.Errorf("worker: stop: handlers did not return within %v of being cancelled: %w", cancelGrace, ctx.Err())
	}
}

// Cancel is Celery's cold shutdown: running handlers have their context
// cancelled with the cause ErrCancelled. A late task that ends because of it is
// handed back; an early one is stored as RETRY, as Celery does. Call Stop too.
func (w *Worker) Cancel() {
	if !w.running.Load() || w.hasEnded() {
		return
	}
	w.observe(Stopping{Cancelled: true})
	w.stopFetch(ErrCancelled)
	w.cancelWork(ErrCancelled)
}

// hasEnded tells whether everything is over after Stop.
func (w *Worker) hasEnded() bool {
	select {
	case <-w.finished:
		return true
	default:
		return false
	}
}

// drain ends the steps in their order, so that none hands work to one that is
// gone.
func (w *Worker) drain() {
	defer close(w.finished)
	w.fetchers.Wait()
	if err := w.closeResponders(); err != nil {
		w.observe(FetchFailed{Err: err})
	}
	w.parked.close()
	w.held.close()
	w.pool.close()
	if err := w.closeConsumers(); err != nil {
		w.observe(FetchFailed{Err: err})
	}
	w.cancelWork(ErrShutdown)
	w.observe(Stopped{})
}

func (w *Worker) closeConsumers() error {
	errs := make([]error, 0, len(w.consumers))
	for _, consumer := range w.consumers {
		errs = append(errs, consumer.Close())
	}
	return errors.Join(errs...)
}

// process walks a job down the rest of the line, on a goroutine of the pool.
func (w *Worker) process(j *job) {
	if !w.admit(j) || !w.claim(j) {
		return
	}
	defer w.unclaim(j, false) // where settle has not ended it
	if w.endedBefore(j) || w.attempt(j) && w.run(j) {
		w.settle(j)
	}
}
