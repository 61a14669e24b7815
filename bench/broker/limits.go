package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// syncRate overwrites a small record of a file and syncs it, again and again, and
// returns how often a second: what a durable send without company can't beat. The
// file keeps its size, as the store's logs do.
func syncRate(dir string, duration time.Duration) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "fsync")) //nolint:gosec // the directory is the benchmark's own
	if err != nil {
		return 0, err
	}
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	n, begin := 0, time.Now()
	for ; time.Since(begin) < duration; n++ {
		if _, err := f.WriteAt(make([]byte, bodyBytes), int64(n%(1<<20-bodyBytes))); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		if err := syncData(f); err != nil {
			return 0, errors.Join(err, f.Close())
		}
	}
	return float64(n) / time.Since(begin).Seconds(), f.Close()
}

// measureMemory stores 1,000,000 messages of 1 KiB and returns what the broker
// keeps in RAM then, in bytes.
func measureMemory(ctx context.Context, o options, data string) (rss int64, err error) {
	c, err := startChild(ctx, options{}, subject{serve: serveBroker, data: data})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := fill(ctx, c, 1_000_000, 1<<10); err != nil {
		return 0, err
	}
	// The run-time gives memory back within a few collections.
	select {
	case <-time.After(o.cell):
	case <-ctx.Done():
	}
	return c.resident()
}
