package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/bench/meter"
)

// Keys of the latencies.
const (
	latencyGet    = "get-idle"
	latencyStart  = "start-idle"
	latencyHalf   = "start-half"
	latencyResult = "result-go"
	latencyPython = "result-python"
	latencyCelery = "result-celery"
)

const (
	// idleRate is so low that no message meets another: a bare get has one at a time.
	idleRate = 100
	// resultRate is that of Python clients, which take milliseconds for a message.
	resultRate = 50
	// warmUp is how many messages go before, uncounted: connections are made then.
	warmUp = 50
	// latencySlots are the worker's.
	latencySlots = 64
)

// latencyLine is a kind of latency with its samples; milliseconds.
type latencyLine struct {
	Key     string    `json:"key"`
	What    string    `json:"what"`
	Rate    float64   `json:"tasks_per_second"`
	P50s    []float64 `json:"p50_of_rounds"`
	P99s    []float64 `json:"p99_of_rounds"`
	Samples int64     `json:"samples"`
	P50     float64   `json:"p50"`
	P99     float64   `json:"p99"`
	P999    float64   `json:"p99_9"`

	merged *hdrhistogram.Histogram
}

func (r *report) latency(key string) *latencyLine {
	for _, l := range r.Latency {
		if l.Key == key {
			return l
		}
	}
	return nil
}

// addLatency adds what a round has measured.
func (r *report) addLatency(key, what string, rate float64, h *hdrhistogram.Histogram) {
	l := r.latency(key)
	if l == nil {
		l = &latencyLine{Key: key, What: what, Rate: rate, merged: meter.NewHistogram()}
		r.Latency = append(r.Latency, l)
	}
	l.P50s = append(l.P50s, quantile(h, 50))
	l.P99s = append(l.P99s, quantile(h, 99))
	l.merged.Merge(h)
}

func (l *latencyLine) conclude() {
	l.Samples = l.merged.TotalCount()
	l.P50, l.P99, l.P999 = quantile(l.merged, 50), quantile(l.merged, 99), quantile(l.merged, 99.9)
}

// quantile is in milliseconds.
func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtQuantile(percent)) / float64(time.Millisecond)
}

// measureLatencies measures each kind once.
func (b *bench) measureLatencies(ctx context.Context, r *report, only *regexp.Regexp) error {
	half := idleRate
	if l := r.line("late-64"); l != nil {
		half = int(median(l.Rates) / 2)
	}
	for _, kind := range []struct {
		key, what string
		rate      int
		measure   latencyOf
	}{
		{latencyGet, "publish → a bare get that waits, idle", idleRate, b.latencyOfGet},
		{latencyStart, "publish → handler start, idle", idleRate, b.latencyOfStart},
		{latencyHalf, "publish → handler start, half load", half, b.latencyOfStart},
		{latencyResult, "publish → result read in Go, idle", resultRate, b.latencyOfResult},
		{latencyPython, "publish → result read in Python, Lovage on the embedded broker, idle", resultRate, b.latencyInPython},
		{latencyCelery, "publish → result read in Python, Celery prefork on Redis, idle", resultRate, b.latencyOfCelery},
	} {
		if !only.MatchString(kind.key) {
			continue
		}
		seconds := 5 * b.options.window.Seconds() / 2
		s := schedule{rate: float64(kind.rate), count: warmUp + int(float64(kind.rate)*seconds)}
		h, err := patiently(ctx, s, kind.measure)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.key, err)
		}
		b.progress("%-28s p50 %.3f ms, p99 %.3f ms", kind.key, quantile(h, 50), quantile(h, 99))
		r.addLatency(kind.key, kind.what, float64(kind.rate), h)
	}
	return nil
}

// latencyOf measures one kind of latency.
type latencyOf func(ctx context.Context, s schedule) (*hdrhistogram.Histogram, error)

func patiently(ctx context.Context, s schedule, measure latencyOf) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithTimeout(ctx, cellPatience)
	defer cancel()
	return measure(ctx, s)
}

// latencyOfGet: the child notes them itself.
func (b *bench) latencyOfGet(ctx context.Context, s schedule) (*hdrhistogram.Histogram, error) {
	return b.stamped(ctx, s, func(n *node) (*process, error) {
		p, err := startSelf(ctx, roleGet, "-address", n.address)
		if err != nil {
			return nil, err
		}
		return p, p.read(&readiness{})
	})
}

// latencyOfStart: the handler notes them.
func (b *bench) latencyOfStart(ctx context.Context, s schedule) (*hdrhistogram.Histogram, error) {
	return b.stamped(ctx, s, func(n *node) (*process, error) { return b.startLovage(ctx, n, false) })
}

// startLovage starts a worker that acks late.
func (b *bench) startLovage(ctx context.Context, n *node, results bool) (*process, error) {
	k := &contender{}
	c := cell{system: systemLovage, late: true, slots: latencySlots, results: results}
	err := b.work(ctx, c, k, n, "broker_url=kubemq://"+n.address)
	return k.worker, err
}

// stamped publishes stamps on schedule and asks the process for what it noted.
func (b *bench) stamped(ctx context.Context, s schedule, start func(*node) (*process, error)) (h *hdrhistogram.Histogram, err error) {
	n, err := startNode(ctx, "", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	p, err := start(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	before := schedule{begin: time.Now(), rate: idleRate, count: warmUp}
	if err := n.publish(ctx, before, stampOf); err != nil {
		return nil, err
	}
	if err := p.awaitStarted(ctx, warmUp); err != nil {
		return nil, err
	}
	var warm meter.State
	if err := p.ask(meter.Latencies, &warm); err != nil {
		return nil, err
	}
	s.begin, s.count = time.Now(), s.count-warmUp
	if err := n.publish(ctx, s, stampOf); err != nil {
		return nil, err
	}
	if err := p.awaitStarted(ctx, int64(warmUp+s.count)); err != nil {
		return nil, err
	}
	var all meter.State
	if err := p.ask(meter.Latencies, &all); err != nil {
		return nil, err
	}
	return difference(all.Latencies, warm.Latencies), nil
}

// difference is what came after an earlier snapshot.
func difference(all, earlier *hdrhistogram.Snapshot) *hdrhistogram.Histogram {
	for i := range min(len(all.Counts), len(earlier.Counts)) {
		all.Counts[i] -= earlier.Counts[i]
	}
	return hdrhistogram.Import(all)
}

func stampOf(due time.Time) (task, string) {
	return task{name: "bench.stamp", args: []any{due.UnixNano()}}, uuid.NewString()
}

// awaitStarted waits until a process has begun so many tasks.
func (p *process) awaitStarted(ctx context.Context, tasks int64) error {
	for {
		s, err := p.state()
		if err != nil || s.Started >= tasks {
			return err
		}
		if err := wait(ctx, pollPause); err != nil {
			return p.failed(fmt.Sprintf("with %d of %d tasks started, wait for", s.Started, tasks), err)
		}
	}
}

// publish sends on schedule and does not wait for the answers in between.
func (n *node) publish(ctx context.Context, s schedule, next func(due time.Time) (task, string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.client.QueuesUpstream(ctx)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() { answered <- confirmed(stream, s.count) }()
	err = s.each(ctx, func(first, end int) error {
		batch := make([]*pb.QueueMessage, 0, end-first)
		for i := first; i < end; i++ {
			t, id := next(s.due(i))
			w, err := t.encode(id, queueName)
			if err != nil {
				return err
			}
			batch = append(batch, w.message(queueName))
		}
		return stream.Send(&pb.QueuesUpstreamRequest{RequestID: "publish", Messages: batch})
	})
	if err != nil {
		cancel()
		return errors.Join(err, <-answered)
	}
	return <-answered
}

// confirmed reads answers until so many messages are stored.
func confirmed(stream pb.Kubemq_QueuesUpstreamClient, messages int) error {
	for messages > 0 {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.IsError || len(response.Results) == 0 || response.Results[0].IsError {
			return fmt.Errorf("the broker refused: %v", response)
		}
		messages -= len(response.Results)
	}
	return nil
}
