package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lovage-project/lovage/bench/meter"
)

const (
	// pollPause is how often the queue's depth is read.
	pollPause = 10 * time.Millisecond
	// A rate is taken between the moments when so much of the backlog is left: the start
	// and the end of a worker are not part of it.
	beginShare, endShare = 0.9, 0.1
	// cellPatience bounds one measurement.
	cellPatience = 30 * time.Second
)

// figure is what one run of a cell gave.
type figure struct {
	Rate    float64 // tasks a second
	CPU     float64 // of the worker's processes, microseconds a task
	Objects float64 // allocated by the worker, a task; 0 where it doesn't tell
	Bytes   float64 // allocated by the worker, a task
	Memory  float64 // of the worker's processes at the end of the window, bytes
}

// measure runs a cell once.
func (b *bench) measure(ctx context.Context, c cell) (f figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, cellPatience)
	defer cancel()
	k, err := b.contend(ctx, c)
	if err != nil {
		return figure{}, err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	if c.whole() {
		return k.measureWhole(ctx, int64(c.messages))
	}
	if b.options.profile != "" && k.metered {
		k.profile = filepath.Join(b.options.profile, c.key)
	}
	return k.measureWindow(ctx, int64(c.messages), b.options.window)
}

// moment is what is known of a contender at a time.
type moment struct {
	at    time.Time
	depth int64
	cost  cost
	state meter.State
}

func (k *contender) moment(ctx context.Context) (m moment, err error) {
	if m.depth, err = k.depth(ctx); err != nil {
		return moment{}, err
	}
	m.at = time.Now()
	if m.cost, err = k.worker.cost(); err != nil || !k.metered {
		return m, err
	}
	m.state, err = k.worker.state()
	return m, err
}

// measureWindow takes the rate in the middle of the backlog, for as long as limit.
func (k *contender) measureWindow(ctx context.Context, messages int64, limit time.Duration) (figure, error) {
	first, last := int64(beginShare*float64(messages)), int64(endShare*float64(messages))
	if err := k.await(ctx, func(depth int64) bool { return depth <= first }); err != nil {
		return figure{}, fmt.Errorf("wait for the worker to begin: %w", err)
	}
	begin, err := k.moment(ctx)
	if err != nil {
		return figure{}, err
	}
	if k.profile != "" {
		if err := k.worker.ask(meter.Profile+" "+k.profile, &begin.state); err != nil {
			return figure{}, err
		}
	}
	until := begin.at.Add(limit)
	if err := k.await(ctx, func(depth int64) bool { return depth <= last || time.Now().After(until) }); err != nil {
		return figure{}, fmt.Errorf("wait for the window to end: %w", err)
	}
	end, err := k.moment(ctx)
	if err == nil && k.profile != "" {
		err = k.worker.ask(meter.Profiled, &meter.State{})
	}
	if err != nil {
		return figure{}, err
	}
	return between(begin, end, float64(begin.depth-end.depth))
}

// measureWhole takes the rate from the first task's start until the last is settled.
func (k *contender) measureWhole(ctx context.Context, messages int64) (figure, error) {
	if err := k.await(ctx, func(depth int64) bool { return depth < messages }); err != nil {
		return figure{}, fmt.Errorf("wait for the worker to begin: %w", err)
	}
	begin, err := k.moment(ctx) // what the start costs is not the tasks'
	if err != nil {
		return figure{}, err
	}
	begin.at = time.Unix(0, begin.state.First)
	if err := k.await(ctx, func(depth int64) bool { return depth <= messages/2 }); err != nil {
		return figure{}, fmt.Errorf("wait for half of the backlog: %w", err)
	}
	half, err := k.worker.cost()
	if err != nil {
		return figure{}, err
	}
	if err := k.await(ctx, func(depth int64) bool { return depth == 0 }); err != nil {
		return figure{}, fmt.Errorf("wait for the end of the backlog: %w", err)
	}
	end, err := k.moment(ctx)
	if err != nil {
		return figure{}, err
	}
	f, err := between(begin, end, float64(messages))
	f.Memory = float64(max(half.memory, end.cost.memory))
	return f, err
}

// await polls until the depth is right, or the worker has ended.
func (k *contender) await(ctx context.Context, right func(depth int64) bool) error {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		depth, err := k.depth(ctx)
		if err != nil {
			return err
		}
		if right(depth) {
			return nil
		}
		if err := k.worker.ended(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return k.worker.failed(fmt.Sprintf("with %d messages left, wait for", depth), ctx.Err())
		}
	}
}

// between is the figure of so many tasks between two moments.
func between(begin, end moment, tasks float64) (figure, error) {
	took := end.at.Sub(begin.at).Seconds()
	if tasks <= 0 || took <= 0 {
		return figure{}, fmt.Errorf("%.0f tasks in %.3f s: nothing to measure", tasks, took)
	}
	return figure{
		Rate:    tasks / took,
		CPU:     float64((end.cost.cpu - begin.cost.cpu).Microseconds()) / tasks,
		Objects: float64(end.state.Objects-begin.state.Objects) / tasks,
		Bytes:   float64(end.state.Bytes-begin.state.Bytes) / tasks,
		Memory:  float64(end.cost.memory),
	}, nil
}
