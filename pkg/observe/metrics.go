package observe

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lovage-project/lovage/pkg/worker"
)

const (
	// otherTasks stands for names that are not registered here, which anybody who can
	// send a message could make up. No task can have this name.
	otherTasks = "(other)"
	// maxScrapes bounds the scrapes at the same time.
	maxScrapes = 4
)

// runtimeBuckets and waitBuckets are in seconds. Tasks run from milliseconds to an
// hour, and wait for as long.
var (
	runtimeBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}
	waitBuckets    = []float64{.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 21600}
)

// MetricsConfig says what Metrics measures besides what it observes. Load, Connection,
// Depths and Delayed may be nil: their metrics are missing then.
type MetricsConfig struct {
	// Tasks are the registered names: each has series of its own, all others share
	// one.
	Tasks []string
	// Load is the worker's.
	Load func() worker.Load
	// Connection is the broker's.
	Connection *Connection
	// Depths are those of the worker's queues.
	Depths *Depths
	// Delayed is how many messages this process has sent that are not due yet.
	Delayed func() int
}

// Metrics is an observer of the worker and a prometheus.Collector: it can be
// registered beside a program's own metrics. docs/operations.md says what each
// metric means.
type Metrics struct {
	config MetricsConfig
	known  map[string]bool

	// byTask are the counters that have the label task.
	byTask                                         map[string]*prometheus.CounterVec
	runtime, wait                                  *prometheus.HistogramVec
	unprocessable, storeRetries, storeFailures     prometheus.Counter
	publishRetries, publishFailures, settleFailure prometheus.Counter
	fetchFailures, dropped                         prometheus.Counter
	all                                            []prometheus.Collector
}

var (
	_ worker.Observer      = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// The counters by task: lovage_tasks_<name>_total.
const (
	countReceived     = "received"
	countPostponed    = "postponed"
	countStarted      = "started"
	countSucceeded    = "succeeded"
	countFailed       = "failed"
	countRetried      = "retried"
	countRejected     = "rejected"
	countIgnored      = "ignored"
	countRevoked      = "revoked"
	countCancelled    = "cancelled"
	countDeadLettered = "dead_lettered"
	countDuplicate    = "duplicate"
	countUnknown      = "unknown"
)

var taskCounters = map[string]string{
	countReceived:     "Messages decoded whose task is to run here.",
	countPostponed:    "Messages handed back to the broker because their ETA is not near.",
	countStarted:      "Handlers called.",
	countSucceeded:    "Tasks that succeeded.",
	countFailed:       "Tasks that failed for good.",
	countRetried:      "Tasks whose next attempt was published.",
	countRejected:     "Tasks rejected by their handler, for good or to be delivered again.",
	countIgnored:      "Tasks whose handler wants no result.",
	countRevoked:      "Tasks that did not run because they had expired or were revoked.",
	countCancelled:    "Tasks that a cold shutdown ended.",
	countDeadLettered: "Messages moved to the dead letter queue.",
	countDuplicate:    "Messages delivered again whose task has run.",
	countUnknown:      "Messages of tasks that are not registered here.",
}

// NewMetrics makes metrics that start at zero.
func NewMetrics(config MetricsConfig) *Metrics {
	m := &Metrics{config: config, known: map[string]bool{}, byTask: map[string]*prometheus.CounterVec{}}
	for _, task := range config.Tasks {
		m.known[task] = true
	}
	for name, help := range taskCounters {
		m.byTask[name] = keep(m, prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "lovage_tasks_" + name + "_total", Help: help}, []string{"task"}))
		// Series that begin at zero, so that a rate sees the first event.
		for _, task := range append(config.Tasks, otherTasks) {
			m.byTask[name].WithLabelValues(task)
		}
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"task"}))
	}
	m.runtime = histogram("lovage_task_runtime_seconds", "How long handlers ran.", runtimeBuckets)
	m.wait = histogram("lovage_task_wait_seconds",
		"From when a message was ready, or its ETA if that is later, to when it was received.", waitBuckets)
	counter := func(name, help string) prometheus.Counter {
		return keep(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "lovage_" + name + "_total", Help: help}))
	}
	m.unprocessable = counter("messages_unprocessable", "Messages that could not be decoded.")
	m.dropped = counter("messages_dropped", "Messages that could not be decoded or are of no task, and were kept nowhere.")
	m.storeRetries = counter("result_store_retries", "Attempts to store a result that failed and were repeated.")
	m.storeFailures = counter("result_store_failures", "Results that were given up.")
	m.publishRetries = counter("publish_retries", "Attempts to publish a copy of a message that failed and were repeated.")
	m.publishFailures = counter("publish_failures", "Copies of messages that were given up.")
	m.settleFailure = counter("settlement_failures", "Settlements that the broker did not confirm; it delivers those messages again.")
	m.fetchFailures = counter("fetch_failures", "Requests for messages that the broker refused.")
	return m
}

// keep adds a collector to those that Metrics consists of.
func keep[C prometheus.Collector](m *Metrics, one C) C {
	m.all = append(m.all, one)
	return one
}

// Observe counts an event.
func (m *Metrics) Observe(event worker.Event) {
	switch e := event.(type) {
	case worker.TaskReceived:
		m.count(countReceived, e.Request.Task)
		m.waited(e)
	case worker.TaskPostponed:
		m.count(countPostponed, e.Request.Task)
	case worker.TaskStarted:
		m.count(countStarted, e.Request.Task)
	case worker.TaskSucceeded:
		m.count(countSucceeded, e.Request.Task)
		m.ran(e.Request.Task, e.Runtime)
	case worker.TaskFailed:
		m.count(countFailed, e.Request.Task)
		m.ran(e.Request.Task, e.Runtime)
	case worker.TaskRetried:
		m.count(countRetried, e.Request.Task)
	case worker.TaskRejected:
		m.count(countRejected, e.Request.Task)
	case worker.TaskIgnored:
		m.count(countIgnored, e.Request.Task)
	case worker.TaskRevoked:
		m.count(countRevoked, e.Request.Task)
	case worker.TaskCancelled:
		m.count(countCancelled, e.Request.Task)
	case worker.DeadLettered:
		m.count(countDeadLettered, e.Task)
	case worker.TaskDuplicate:
		m.count(countDuplicate, e.Request.Task)
	case worker.TaskUnknown:
		m.count(countUnknown, e.Task)
		if e.Fate == worker.Dropped {
			m.dropped.Inc()
		}
	default:
		m.trouble(e)
	}
}

// trouble counts what goes wrong around the tasks.
func (m *Metrics) trouble(event worker.Event) {
	switch e := event.(type) {
	case worker.MessageUnprocessable:
		m.unprocessable.Inc()
		if e.Fate == worker.Dropped {
			m.dropped.Inc()
		}
	case worker.StoreFailed:
		chosen(e.GivenUp, m.storeFailures, m.storeRetries).Inc()
	case worker.PublishFailed:
		chosen(e.GivenUp, m.publishFailures, m.publishRetries).Inc()
	case worker.SettleFailed:
		m.settleFailure.Inc()
	case worker.FetchFailed:
		m.fetchFailures.Inc()
	}
}

func chosen(first bool, one, other prometheus.Counter) prometheus.Counter {
	if first {
		return one
	}
	return other
}

// waited measures how long a task was kept waiting: not before its ETA, for which
// it was meant to wait. The broker's clock may be ahead of ours.
func (m *Metrics) waited(e worker.TaskReceived) {
	if e.Queued.IsZero() {
		return
	}
	ready := e.Queued
	if e.Request.ETA.After(ready) {
		ready = e.Request.ETA
	}
	m.wait.WithLabelValues(m.label(e.Request.Task)).Observe(max(0, time.Since(ready)).Seconds())
}

// ran measures a handler that was called: what is known of an earlier run, or has used
// up its attempts, ends without.
func (m *Metrics) ran(task string, runtime time.Duration) {
	if runtime > 0 {
		m.runtime.WithLabelValues(m.label(task)).Observe(runtime.Seconds())
	}
}

func (m *Metrics) count(name, task string) { m.byTask[name].WithLabelValues(m.label(task)).Inc() }

func (m *Metrics) label(task string) string {
	if m.known[task] {
		return task
	}
	return otherTasks
}

var (
	descSlots = prometheus.NewDesc("lovage_slots", "How many tasks may run at once.", nil, nil)
	descBusy  = prometheus.NewDesc("lovage_slots_busy", "Slots that have a task.", nil, nil)
	descUp    = prometheus.NewDesc("lovage_connection_up", "1 while the broker answers, else 0.", nil, nil)
	descDelay = prometheus.NewDesc("lovage_delayed_messages", "Messages this process has sent that are not due yet.", nil, nil)
	descAgain = prometheus.NewDesc("lovage_connection_reconnects_total", "How often a lost connection to the broker came back.", nil, nil)
)

// Describe is prometheus.Collector's.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, one := range m.all {
		one.Describe(to)
	}
	for _, desc := range []*prometheus.Desc{descSlots, descBusy, descUp, descAgain, descDelay, descDepth} {
		to <- desc
	}
}

// Collect is prometheus.Collector's. It asks the broker for the depths of queues, if
// they are older than a few seconds.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, one := range m.all {
		one.Collect(to)
	}
	gauge := func(desc *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if m.config.Load != nil {
		load := m.config.Load()
		gauge(descSlots, float64(load.Slots))
		gauge(descBusy, float64(load.Busy))
	}
	if c := m.config.Connection; c != nil {
		up := 0.
		if c.Err() == nil {
			up = 1
		}
		gauge(descUp, up)
		to <- prometheus.MustNewConstMetric(descAgain, prometheus.CounterValue, float64(c.Reconnects()))
	}
	if m.config.Delayed != nil {
		gauge(descDelay, float64(m.config.Delayed()))
	}
	if m.config.Depths != nil {
		m.config.Depths.collect(to)
	}
}

// Handler answers a scrape with these metrics, those of the Go runtime and the
// process, and others.
func (m *Metrics) Handler(others ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(others, m, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}
