package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/bench/meter"
	results "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// latencyOfResult reads each result with the Go backend, which polls.
func (b *bench) latencyOfResult(ctx context.Context, s schedule) (h *hdrhistogram.Histogram, err error) {
	n, err := startNode(ctx, "", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	p, err := b.startLovage(ctx, n, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	backend, err := results.New(results.Config{Connection: kubemq.Config{Address: n.address}})
	if err != nil {
		return nil, err
	}
	if err := backend.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Stop()) }()

	m := meter.NewHistogram()
	latencies := make(chan time.Duration)
	readers, reading := errgroup.WithContext(ctx)
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for latency := range latencies {
			_ = m.RecordValue(int64(min(latency, meter.MaxLatency))) // it is in bounds
		}
	}()
	s.begin = time.Now()
	sent := 0
	published := n.publish(reading, s, func(due time.Time) (task, string) {
		id, counts := uuid.NewString(), sent >= warmUp
		sent++
		readers.Go(func() error {
			_, err := backend.Wait(reading, id)
			if err == nil && counts {
				latencies <- time.Since(due)
			}
			return err
		})
		return noop(0), id
	})
	err = errors.Join(published, readers.Wait())
	close(latencies)
	<-noted
	return m, err
}

// latencyInPython has a Python client publish to Lovage and wait for results.
func (b *bench) latencyInPython(ctx context.Context, s schedule) (h *hdrhistogram.Histogram, err error) {
	n, err := startNode(ctx, "", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	p, err := b.startLovage(ctx, n, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return b.pythonClient(ctx, s, "lovage://"+n.address)
}

// latencyOfCelery is the same client with Celery at the other end.
func (b *bench) latencyOfCelery(ctx context.Context, s schedule) (h *hdrhistogram.Histogram, err error) {
	k := &contender{}
	c := cell{system: systemCelery, pool: "prefork", results: true, slots: 2, prefetch: 4}
	if err := b.contendCelery(ctx, c, k); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	return b.pythonClient(ctx, s, "redis://"+b.redis.address+"/0")
}

// pythonClient runs client.py, which writes its latencies in nanoseconds.
func (b *bench) pythonClient(ctx context.Context, s schedule, url string) (*hdrhistogram.Histogram, error) {
	variables := []string{"BENCH_REDIS_URL=" + url, "BENCH_RESULTS=1", "PYTHONPATH=" + b.programs.python, "PYTHONDONTWRITEBYTECODE=1"}
	p, err := startProcess(ctx, variables, b.programs.interpreter(), "-m", "client",
		strconv.FormatFloat(s.rate, 'f', -1, 64), strconv.Itoa(s.count), strconv.Itoa(warmUp))
	if err != nil {
		return nil, err
	}
	var latencies []int64
	if err := p.read(&latencies); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	h := meter.NewHistogram()
	for _, latency := range latencies {
		if err := h.RecordValue(latency); err != nil {
			return nil, errors.Join(fmt.Errorf("latency %d: %w", latency, err), p.stop())
		}
	}
	return h, p.stop()
}
