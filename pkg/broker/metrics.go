package broker

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxSeries bounds the queues that have metrics of their own: those that had the
	// most messages since they came into memory, so that they don't change from one
	// scrape to the next.
	maxSeries = 100
	// otherQueues stands for the rest, resultQueues for Celery's results and noteQueues
	// for Lovage's notes and probes, which are a queue for each task or start: each would
	// be a new series. No queue can have these names.
	otherQueues  = "(other)"
	resultQueues = "(results)"
	noteQueues   = "(notes)"
	// resultPrefix is how kubemq-celery names the queues of results, notePrefix and
	// probePrefix are how Lovage's workers name those of their own (docs/protocol.md §21).
	resultPrefix = "celery-result-"
	notePrefix   = "lovage.attempts."
	probePrefix  = "lovage.probe."
	// maxScrapes bounds the scrapes at the same time.
	maxScrapes = 4
)

var (
	descQueues = prometheus.NewDesc("lovage_broker_queues",
		"Queues in memory.", nil, nil)
	descMessages = prometheus.NewDesc("lovage_broker_queue_messages",
		"Messages of a queue by state: ready, in_flight or delayed.", []string{"queue", "state"}, nil)
	descAge = prometheus.NewDesc("lovage_broker_queue_oldest_seconds",
		"Time since the ready message at the head of a queue came there; 0 if none is ready.", []string{"queue"}, nil)
)

// trafficMetrics are the counters.
var trafficMetrics = []struct {
	desc  *prometheus.Desc
	value func(traffic) uint64
}{
	{trafficDesc("sent", "Messages accepted, delayed ones included."), func(t traffic) uint64 { return t.sent }},
	{trafficDesc("delivered", "Deliveries to consumers."), func(t traffic) uint64 { return t.delivered }},
	{trafficDesc("acked", "Messages acked or purged."), func(t traffic) uint64 { return t.acked }},
	{trafficDesc("nacked", "Messages nacked and handed back."), func(t traffic) uint64 { return t.nacked }},
	{trafficDesc("dead_lettered", "Messages moved to a dead letter queue, or dropped, by a last nack."),
		func(t traffic) uint64 { return t.deadLettered }},
	{trafficDesc("expired", "Messages removed because they expired."), func(t traffic) uint64 { return t.expired }},
}

func trafficDesc(what, help string) *prometheus.Desc {
	return prometheus.NewDesc("lovage_broker_messages_"+what+"_total", help, nil, nil)
}

// metricsHandler answers scrapes, in a registry of its own.
func metricsHandler(qs *queues) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{qs}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Metrics are the broker's metrics without those of the process, for a program that
// has metrics of its own; nil before Start.
func (b *Broker) Metrics() prometheus.Collector {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		return nil
	}
	return collector{b.queues}
}

// collector reads the index when it is scraped.
type collector struct{ *queues }

// Describe tells what Collect sends.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- descQueues
	to <- descMessages
	to <- descAge
	for _, metric := range trafficMetrics {
		to <- metric.desc
	}
}

// Collect sends the metrics of this moment.
func (c collector) Collect(to chan<- prometheus.Metric) {
	depths, total, traffic := c.snapshot()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(descQueues, float64(total))
	for _, d := range bounded(depths) {
		gauge(descMessages, float64(d.ready), d.queue, "ready")
		gauge(descMessages, float64(d.inFlight), d.queue, "in_flight")
		gauge(descMessages, float64(d.delayed), d.queue, "delayed")
		gauge(descAge, d.age.Seconds(), d.queue)
	}
	for _, metric := range trafficMetrics {
		to <- prometheus.MustNewConstMetric(metric.desc, prometheus.CounterValue, float64(metric.value(traffic)))
	}
}

// depth is what waits in a queue.
type depth struct {
	queue                    string
	ready, inFlight, delayed int
	age                      time.Duration // of the first ready message
	messages                 uint64        // since the queue came into memory
}

// add merges the depth of another queue into d.
func (d *depth) add(other depth) {
	d.ready += other.ready
	d.inFlight += other.inFlight
	d.delayed += other.delayed
	d.age = max(d.age, other.age)
}

// snapshot lists the queues in no order, those of results as one, and those of notes.
func (qs *queues) snapshot() (depths []depth, total int, counted traffic) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now().UnixNano()
	// Never among the others.
	results := depth{queue: resultQueues, messages: math.MaxUint64}
	notes := depth{queue: noteQueues, messages: math.MaxUint64}
	for _, q := range qs.byName {
		d := q.depth(now)
		switch {
		case strings.HasPrefix(q.name, resultPrefix):
			results.add(d)
		case strings.HasPrefix(q.name, notePrefix), strings.HasPrefix(q.name, probePrefix):
			notes.add(d)
		default:
			depths = append(depths, d)
		}
	}
	return append(depths, results, notes), len(qs.byName), qs.traffic
}

func (q *queue) depth(now int64) depth {
	d := depth{queue: q.name, ready: q.ready.len(), inFlight: len(q.held), delayed: q.delayed, messages: q.lastSeq}
	if d.ready > 0 {
		d.age = max(0, time.Duration(now-q.ready.top().timestamp))
	}
	return d
}

// bounded merges what is beyond maxSeries.
func bounded(depths []depth) []depth {
	if len(depths) <= maxSeries {
		return depths
	}
	slices.SortFunc(depths, func(a, b depth) int {
		return cmp.Or(cmp.Compare(b.messages, a.messages), cmp.Compare(a.queue, b.queue))
	})
	rest := depth{queue: otherQueues}
	for _, d := range depths[maxSeries-1:] {
		rest.add(d)
	}
	return append(depths[:maxSeries-1:maxSeries-1], rest)
}
