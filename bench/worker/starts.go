package main

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// startLine is what it takes to start a worker, and what it needs then.
type startLine struct {
	Key          string    `json:"key"`
	What         string    `json:"what"`
	Milliseconds []float64 `json:"exec_to_first_task_milliseconds"`
	Memory       []float64 `json:"idle_memory_bytes"`
}

const (
	startLovage = "start-lovage"
	// settleTime is how long after its first task a worker counts as idle.
	settleTime = time.Second
)

// starts are workers that find one task waiting.
func starts() []cell {
	celery := cell{key: "start-celery-prefork", system: systemCelery, pool: "prefork", broker: brokerRedis, slots: 2, prefetch: 4, messages: 1}
	return []cell{
		cell{key: startLovage, system: systemLovage, slots: latencySlots, messages: 1}.complete(),
		celery.complete(),
		cell{key: "start-asynq", system: systemAsynq, broker: brokerRedis, slots: latencySlots, messages: 1}.complete(),
	}
}

// measureOnce measures what is no rate, once a round.
func (b *bench) measureOnce(ctx context.Context, r *report, only *regexp.Regexp) error {
	for _, c := range starts() {
		if !only.MatchString(c.key) {
			continue
		}
		took, memory, err := b.measureStart(ctx, c)
		if err != nil {
			return err
		}
		b.progress("%-28s %v, %s", c.key, took, mebibytes(float64(memory)))
		r.addStart(c, took, memory)
	}
	return b.measureLatencies(ctx, r, only)
}

// startLine finds a worker's; nil if it was not measured.
func (r *report) startLine(key string) *startLine {
	for _, s := range r.Starts {
		if s.Key == key {
			return s
		}
	}
	return nil
}

// addStart adds what a round has measured.
func (r *report) addStart(c cell, took time.Duration, memory int64) {
	s := r.startLine(c.key)
	if s == nil {
		s = &startLine{Key: c.key, What: c.name()}
		r.Starts = append(r.Starts, s)
	}
	s.Milliseconds = append(s.Milliseconds, float64(took)/float64(time.Millisecond))
	s.Memory = append(s.Memory, float64(memory))
}

// measureStart is from the program's start until it has begun, or without a meter
// finished, the task.
func (b *bench) measureStart(ctx context.Context, c cell) (took time.Duration, memory int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, cellPatience)
	defer cancel()
	k, err := b.contend(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	if err := k.await(ctx, func(depth int64) bool { return depth == 0 }); err != nil {
		return 0, 0, err
	}
	took = time.Since(k.worker.started)
	if k.metered {
		if err := k.worker.awaitStarted(ctx, 1); err != nil {
			return 0, 0, err
		}
		s, err := k.worker.state()
		if err != nil {
			return 0, 0, err
		}
		took = time.Unix(0, s.First).Sub(k.worker.started)
	}
	if err := wait(ctx, settleTime); err != nil {
		return 0, 0, err
	}
	used, err := k.worker.cost()
	return took, used.memory, err
}
