package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// busySlots are held by tasks that don't end, while the others wait in the queue.
	busySlots = 8
	// forever is longer than a measurement.
	forever = 6 * time.Hour
	// restTime is how long a worker that has just started is left alone before its memory
	// is read, afterTime one that has worked: Go's run-time collects an idle process every
	// two minutes, and gives back then what the work has left.
	restTime  = 10 * time.Second
	afterTime = 3 * time.Minute
	// moreMemory is how much 1,000,000 ETA tasks may take.
	moreMemory = 10 << 20
)

// memoryFigure is what a worker needs idle and with messages it does not run yet.
type memoryFigure struct {
	idle, loaded, most int64
	took               time.Duration
}

// runMemory measures the worker's memory with a long queue, and with as many tasks
// that wait for their ETA. The broker is a process of its own and durable.
func (b *bench) runMemory(ctx context.Context) error {
	hours := forever.Milliseconds()
	queued, err := b.measureMemory(ctx, task{name: "bench.wait", args: []any{hours}}, busySlots)
	if err != nil {
		return fmt.Errorf("a long queue: %w", err)
	}
	waiting, err := b.measureMemory(ctx, task{name: "bench.noop", args: []any{}, eta: time.Now().Add(forever).UTC()}, 0)
	if err != nil {
		return fmt.Errorf("tasks with an ETA: %w", err)
	}
	grown := float64(waiting.loaded - waiting.idle)
	messages := count(float64(b.options.messages))
	outstanding := atMost("memory of "+messages+" ETA tasks over idle", unitBytes, moreMemory, &grown)
	out := &strings.Builder{}
	fmt.Fprintln(out, "| the worker, broker outside and durable | idle | then | most | took |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|")
	queued.write(out, fmt.Sprintf("%s tasks queued, %d slots busy", messages, busySlots))
	waiting.write(out, messages+" tasks with an ETA, handed back to the broker")
	fmt.Fprintf(out, "\nTarget: %s %s; measured %s: %s.\n", outstanding.What, outstanding.wanted(), outstanding.measured(), outstanding.verdict())
	if _, err := fmt.Print(out.String()); err != nil {
		return err
	}
	return replaceBlock(b.options.document, "memory", out.String())
}

func (f memoryFigure) write(out *strings.Builder, what string) {
	fmt.Fprintf(out, "| %s | %s | %s | %s | %v |\n", what, mebibytes(float64(f.idle)), mebibytes(float64(f.loaded)),
		mebibytes(float64(f.most)), f.took.Round(time.Second))
}

// measureMemory publishes a number of messages to an idle worker and waits until so
// many are left, the others being the broker's: it counts none that are delayed.
func (b *bench) measureMemory(ctx context.Context, t task, left int) (f memoryFigure, err error) {
	data, err := os.MkdirTemp(b.dir, "data-")
	if err != nil {
		return f, err
	}
	n, err := startNode(ctx, data, "")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	k := &contender{}
	c := cell{system: systemLovage, late: true, slots: busySlots}
	if err := b.work(ctx, c, k, n, "broker_url=kubemq://"+n.address); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, k.worker.end()) }() // its tasks don't end
	if f.idle, err = k.restingMemory(ctx, restTime); err != nil {
		return f, err
	}
	begin := time.Now()
	if err := n.fill(ctx, t, queueName, b.options.messages); err != nil {
		return f, err
	}
	b.progress("published %d messages in %v", b.options.messages, time.Since(begin).Round(time.Second))
	if err := k.awaitMemory(ctx, int64(left), &f.most); err != nil {
		return f, err
	}
	f.took = time.Since(begin)
	f.loaded, err = k.restingMemory(ctx, afterTime)
	return f, err
}

// restingMemory is read after a rest.
func (k *contender) restingMemory(ctx context.Context, rest time.Duration) (int64, error) {
	if err := wait(ctx, rest); err != nil {
		return 0, err
	}
	used, err := k.worker.cost()
	return used.memory, err
}

// awaitMemory notes the most memory until the queue is worked off, or for tasks that
// hold their slots until they have begun.
func (k *contender) awaitMemory(ctx context.Context, held int64, most *int64) error {
	for {
		used, err := k.worker.cost()
		if err != nil {
			return err
		}
		*most = max(*most, used.memory)
		if held > 0 {
			return k.worker.awaitStarted(ctx, held)
		}
		depth, err := k.depth(ctx)
		if err != nil || depth == 0 {
			return err
		}
		if err := wait(ctx, restTime/10); err != nil {
			return err
		}
	}
}
