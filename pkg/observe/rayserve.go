package observe

import (
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// RayServeConfig says what a RayServe tells of besides what it observes. Depths and
// Ready must be set.
type RayServeConfig struct {
	// Queues are the worker's Ray Serve queues.
	Queues []RayServeQueue
	// Stores are where their results go.
	Stores []RayServeStore
	// Depths are those of the queues and of their failed-task queues.
	Depths *Depths
	// Ready is nil while the worker consumes, else it says why it doesn't.
	Ready func() error
}

// RayServeQueue is a Ray Serve queue of the worker.
type RayServeQueue struct {
	Name string
	// FailedTaskQueue takes the tasks that failed for good; "" = there is none.
	FailedTaskQueue string
}

// RayServeStore is the result backend of some Ray Serve queues.
type RayServeStore struct {
	// Queues are the names of those whose results it stores.
	Queues []string
	// Counts is what the backend has counted since it was made.
	Counts func() StoreCounts
}

// StoreCounts is what became of results that could not be stored at once.
type StoreCounts struct {
	// Retries are the attempts that failed.
	Retries int64
	// Kept are the results in memory that are still to be stored.
	Kept int64
	// Dropped are the results that were lost, because too many were kept or the worker
	// stopped.
	Dropped int64
}

// RayServe is an observer that keeps the metrics of Ray Serve's KubeMQ adapter, under
// its names: an http.Handler that answers with all of them in one JSON document, and a
// prometheus.Collector of what is known of results only here. docs/operations.md says
// what each metric means.
type RayServe struct {
	config RayServeConfig
	queues map[string]*rayServeQueue
}

var _ worker.Observer = (*RayServe)(nil)

// NewRayServe makes metrics that start at zero.
func NewRayServe(config RayServeConfig) *RayServe {
	r := &RayServe{config: config, queues: make(map[string]*rayServeQueue, len(config.Queues))}
	for _, queue := range config.Queues {
		r.queues[queue.Name] = &rayServeQueue{running: map[*tasks.Request]time.Time{}}
	}
	return r
}

// Observe counts an event of a Ray Serve queue.
func (r *RayServe) Observe(event worker.Event) {
	switch e := event.(type) {
	case worker.TaskStarted:
		r.of(e.Request.Queue, func(q *rayServeQueue) { q.running[e.Request] = time.Now() })
	case worker.TaskSucceeded:
		r.of(e.Request.Queue, func(q *rayServeQueue) { q.succeeded++; q.ran(e.Request, e.Runtime) })
	case worker.TaskFailed:
		r.of(e.Request.Queue, func(q *rayServeQueue) { q.failed++; q.ran(e.Request, e.Runtime) })
	case worker.TaskUnknown:
		r.of(e.Queue, func(q *rayServeQueue) { q.unknown(e) })
	case worker.TaskRetried:
		r.broken(e.Request)
	case worker.TaskRejected:
		r.broken(e.Request)
	case worker.TaskIgnored:
		r.broken(e.Request)
	case worker.TaskRevoked:
		r.broken(e.Request)
	case worker.TaskCancelled:
		r.broken(e.Request)
	case worker.TaskEnded:
		r.of(e.Request.Queue, func(q *rayServeQueue) { delete(q.running, e.Request) })
	case worker.Polled:
		r.of(e.Queue, func(q *rayServeQueue) { q.polled, q.poll = time.Now(), e.Took })
	}
}

// of has change done to a queue, if it is one of Ray Serve's.
func (r *RayServe) of(queue string, change func(*rayServeQueue)) {
	q := r.queues[queue]
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

// broken measures a handler whose end completes no task: it comes again, or nothing is
// to be known of it.
func (r *RayServe) broken(request *tasks.Request) {
	r.of(request.Queue, func(q *rayServeQueue) {
		if started := q.running[request]; !started.IsZero() {
			q.ran(request, time.Since(started))
		}
	})
}

// rayServeQueue is what was observed of a queue.
type rayServeQueue struct {
	mu sync.Mutex
	// running are the tasks whose handlers were called, with the time of that; zero
	// when their time is measured.
	running           map[*tasks.Request]time.Time
	succeeded, failed int64
	// runs is how many handlers ended; the others are their times.
	runs                       int64
	shortest, longest, runtime time.Duration
	// poll is how long the last request for messages took, which ended at polled.
	poll   time.Duration
	polled time.Time
}

// ran measures a handler that was called, once: a task that is rejected for good has
// failed too. A task that ended without a handler has no runtime.
func (q *rayServeQueue) ran(request *tasks.Request, runtime time.Duration) {
	started, running := q.running[request]
	if runtime <= 0 || running && started.IsZero() {
		return
	}
	if running {
		q.running[request] = time.Time{}
	}
	if q.runs == 0 || runtime < q.shortest {
		q.shortest = runtime
	}
	q.longest = max(q.longest, runtime)
	q.runtime += runtime
	q.runs++
}

// unknown counts a task without a handler, whose caller is told of a failure.
func (q *rayServeQueue) unknown(e worker.TaskUnknown) {
	if e.Fate != worker.HandedBack {
		q.failed++
	}
}
