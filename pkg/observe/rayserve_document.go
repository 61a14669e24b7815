package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// rayServeMetrics are the adapter's metrics, with its names.
type rayServeMetrics struct {
	// QueueDepth and DLQDepth are null while the broker doesn't tell.
	QueueDepth     *int64            `json:"queue_depth"`
	InFlight       int               `json:"in_flight"`
	DLQDepth       *int64            `json:"dlq_depth"`
	Enqueued       int64             `json:"tasks_enqueued_total"` // 0: a worker enqueues nothing
	Completed      rayServeCompleted `json:"tasks_completed_total"`
	Duration       rayServeDuration  `json:"task_processing_duration_seconds"`
	StorageRetries int64             `json:"result_storage_retries_total"`
	PollLatency    float64           `json:"consumer_poll_latency_seconds"`

	runtime time.Duration // of all runs, for the average
	polled  time.Time     // when PollLatency was measured
}

type rayServeCompleted struct {
	Success int64 `json:"SUCCESS"`
	Failure int64 `json:"FAILURE"`
}

type rayServeDuration struct {
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Avg   float64 `json:"avg"`
	Count int64   `json:"count"`
}

// rayServeDocument is what /rayserve answers: the metrics of all queues together, and
// of each.
type rayServeDocument struct {
	rayServeMetrics
	Healthy bool                       `json:"healthy"`
	Error   string                     `json:"error,omitempty"`
	Queues  map[string]rayServeMetrics `json:"queues"`
}

// ServeHTTP answers with the document. It asks the broker for the depths of queues, if
// they are older than a few seconds.
func (r *RayServe) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := json.MarshalIndent(r.document(request.Context()), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a client that is gone doesn't need the answer
}

func (r *RayServe) document(ctx context.Context) rayServeDocument {
	depths, err := r.config.Depths.current(ctx)
	d := rayServeDocument{Queues: make(map[string]rayServeMetrics, len(r.queues))}
	for _, queue := range r.config.Queues {
		one := r.queues[queue.Name].metrics()
		one.StorageRetries = r.countsOf(queue.Name).Retries
		if err == nil {
			one.QueueDepth, one.DLQDepth = total(depths, queue.Name), total(depths, queue.FailedTaskQueue)
		}
		d.Queues[queue.Name] = one
		d.add(one)
	}
	d.StorageRetries = r.counts().Retries
	if err == nil {
		d.QueueDepth, d.DLQDepth = total(depths, r.names()...), total(depths, r.failedTaskQueues()...)
	}
	unready := r.config.Ready()
	d.Healthy = unready == nil && err == nil
	if why := cmp.Or(unready, err); why != nil {
		d.Error = why.Error()
	}
	return d
}

// metrics are those that were observed.
func (q *rayServeQueue) metrics() rayServeMetrics {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := rayServeMetrics{
		InFlight:    len(q.running),
		Completed:   rayServeCompleted{Success: q.succeeded, Failure: q.failed},
		Duration:    rayServeDuration{Min: q.shortest.Seconds(), Max: q.longest.Seconds(), Count: q.runs},
		PollLatency: q.poll.Seconds(),
		runtime:     q.runtime, polled: q.polled,
	}
	m.average()
	return m
}

func (m *rayServeMetrics) average() {
	if m.Duration.Count > 0 {
		m.Duration.Avg = m.runtime.Seconds() / float64(m.Duration.Count)
	}
}

// add takes in what was observed of another queue. What queues share is not added up:
// see document.
func (m *rayServeMetrics) add(other rayServeMetrics) {
	m.InFlight += other.InFlight
	m.Completed.Success += other.Completed.Success
	m.Completed.Failure += other.Completed.Failure
	if other.Duration.Count > 0 {
		if m.Duration.Count == 0 || other.Duration.Min < m.Duration.Min {
			m.Duration.Min = other.Duration.Min
		}
		m.Duration.Max = max(m.Duration.Max, other.Duration.Max)
		m.Duration.Count += other.Duration.Count
		m.runtime += other.runtime
		m.average()
	}
	if other.polled.After(m.polled) {
		m.PollLatency, m.polled = other.PollLatency, other.polled
	}
}

// total is the depth of some queues together; that of no queue, "", is 0.
func total(depths map[string]int64, queues ...string) *int64 {
	sum := new(int64)
	for _, queue := range queues {
		*sum += depths[queue]
	}
	return sum
}

func (r *RayServe) names() []string {
	names := make([]string, len(r.config.Queues))
	for i, queue := range r.config.Queues {
		names[i] = queue.Name
	}
	return names
}

// failedTaskQueues are those of all queues, each once.
func (r *RayServe) failedTaskQueues() []string {
	names := make([]string, len(r.config.Queues))
	for i, queue := range r.config.Queues {
		names[i] = queue.FailedTaskQueue
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// countsOf is what the backend of a queue has counted.
func (r *RayServe) countsOf(queue string) StoreCounts {
	for _, store := range r.config.Stores {
		if slices.Contains(store.Queues, queue) {
			return store.Counts()
		}
	}
	return StoreCounts{}
}

// counts is what all backends have counted.
func (r *RayServe) counts() (all StoreCounts) {
	for _, store := range r.config.Stores {
		counts := store.Counts()
		all.Retries += counts.Retries
		all.Kept += counts.Kept
		all.Dropped += counts.Dropped
	}
	return all
}

var (
	descStoreRetries = prometheus.NewDesc("lovage_rayserve_result_store_retries_total",
		"Attempts to store a result of a Ray Serve task that failed.", nil, nil)
	descKept = prometheus.NewDesc("lovage_rayserve_results_kept",
		"Results of Ray Serve tasks that are kept in memory until they can be stored.", nil, nil)
	descResultsDropped = prometheus.NewDesc("lovage_rayserve_results_dropped_total",
		"Results of Ray Serve tasks that were never stored.", nil, nil)
)

var _ prometheus.Collector = (*RayServe)(nil)

// Describe is prometheus.Collector's.
func (r *RayServe) Describe(to chan<- *prometheus.Desc) {
	to <- descStoreRetries
	to <- descKept
	to <- descResultsDropped
}

// Collect is prometheus.Collector's.
func (r *RayServe) Collect(to chan<- prometheus.Metric) {
	counts := r.counts()
	to <- prometheus.MustNewConstMetric(descStoreRetries, prometheus.CounterValue, float64(counts.Retries))
	to <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(counts.Kept))
	to <- prometheus.MustNewConstMetric(descResultsDropped, prometheus.CounterValue, float64(counts.Dropped))
}
