package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/bench/meter"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// handlers are the tasks of the benchmark.
type handlers struct{ meter *meter.Meter }

func register(r *tasks.Registry, m *meter.Meter) {
	h := handlers{meter: m}
	tasks.Handle(r, "bench.noop", h.noop)
	tasks.Handle(r, "bench.wait", h.wait)
	tasks.Handle(r, "bench.spin", h.spin)
	tasks.Handle(r, "bench.stamp", h.stamp)
	tasks.Handle(r, "bench.unlucky", h.unlucky)
}

type noopInput struct {
	Pad string `celery:"pad,default="`
}

// noop has a payload and does nothing with it.
func (h handlers) noop(context.Context, noopInput) (any, error) {
	h.meter.Start()
	return nil, nil
}

type waitInput struct {
	Milliseconds int `celery:"milliseconds"`
}

// wait waits, as a handler does that asks a database or an API.
func (h handlers) wait(ctx context.Context, in waitInput) (any, error) {
	h.meter.Start()
	timer := time.NewTimer(time.Duration(in.Milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type spinInput struct {
	Rounds int `celery:"rounds"`
}

// spin computes; a round is a multiplication and an addition.
func (h handlers) spin(_ context.Context, in spinInput) (any, error) {
	h.meter.Start()
	n := uint64(1)
	for range in.Rounds {
		n = n*6364136223846793005 + 1442695040888963407
	}
	return n&1 == 1, nil
}

type stampInput struct {
	Due int64 `celery:"due"`
}

// stamp notes how long ago its message was due to be published, in Unix nanoseconds.
func (h handlers) stamp(_ context.Context, in stampInput) (any, error) {
	h.meter.Start()
	return nil, h.meter.Note(time.Since(time.Unix(0, in.Due)))
}

type unluckyInput struct {
	Number int `celery:"number"`
}

// unlucky panics once in a hundred times.
func (h handlers) unlucky(_ context.Context, in unluckyInput) (any, error) {
	h.meter.Start()
	if in.Number%100 == 99 {
		panic(fmt.Sprintf("task %d is unlucky", in.Number))
	}
	return nil, nil
}
