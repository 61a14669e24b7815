package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
)

// bench is a run of the benchmark.
type bench struct {
	options  options
	programs programs
	dir      string
	redis    *redis
}

func (b *bench) run(ctx context.Context) error {
	switch {
	case b.options.memory:
		return b.runMemory(ctx)
	case b.options.soak > 0:
		return b.runSoak(ctx)
	default:
		return b.compare(ctx)
	}
}

// compare measures all cells, round by round, then what is measured in another way.
func (b *bench) compare(ctx context.Context) (err error) {
	only, err := regexp.Compile(b.options.only)
	if err != nil {
		return err
	}
	if b.redis, err = startRedis(ctx, b.programs.redis); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.redis.stop()) }()
	r := newReport(b.options)
	if r.Versions, err = b.programs.versions(ctx); err != nil {
		return err
	}
	for _, c := range pairings() {
		if only.MatchString(c.key) {
			r.Lines = append(r.Lines, newLine(c))
		}
	}
	for round := range b.options.rounds {
		for _, l := range r.Lines {
			f, err := b.measure(ctx, b.scaled(l.cell))
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, l.Key, err)
			}
			b.progress("%d/%d %-24s %8.0f tasks/s %8.1f µs CPU", round+1, b.options.rounds, l.Key, f.Rate, f.CPU)
			l.add(f)
		}
		if err := b.measureOnce(ctx, r, only); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	r.Took = time.Since(r.Date).Round(time.Second).String()
	return b.publish(r.conclude())
}

// scaled has a quarter of the backlog in a quick run.
func (b *bench) scaled(c cell) cell {
	if b.options.quick {
		c.messages = max(c.messages/4, 2*c.slots)
	}
	return c
}

// progress tells on standard error how far the run is.
func (b *bench) progress(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", arguments...)
}
