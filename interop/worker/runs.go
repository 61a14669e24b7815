package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerRuns registers tasks that leave a trace of when and how often they ran.
func registerRuns(r *tasks.Registry) {
	tasks.Handle(r, "interop.now", now)
	tasks.Handle(r, "interop.sleep", sleep)
	tasks.Handle(r, "interop.count", count)
	tasks.Handle(r, "interop.count_late", count, tasks.AcksLate())
	tasks.Handle(r, "interop.count_tracked", count, tasks.TrackStarted())
}

// now returns the Unix time at which it ran, in seconds.
func now(context.Context, struct{}) (float64, error) {
	return float64(time.Now().UnixMicro()) / 1e6, nil
}

type sleepInput struct {
	Seconds float64 `celery:"seconds"`
}

func sleep(ctx context.Context, in sleepInput) (float64, error) {
	return in.Seconds, wait(ctx, seconds(in.Seconds))
}

type countInput struct {
	Path    string  `celery:"path"`
	Value   int64   `celery:"value"`
	Seconds float64 `celery:"seconds,default=0"`
}

// count returns Value. It adds a line to the file at Path when it starts and one
// when it has ended, so that a test can tell a run that was cut off.
func count(ctx context.Context, in countInput) (int64, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return 0, err
	}
	if err := addLine(in.Path, "start", request.ID); err != nil {
		return 0, err
	}
	if err := wait(ctx, seconds(in.Seconds)); err != nil {
		return 0, err
	}
	return in.Value, addLine(in.Path, "end", request.ID)
}

// addLine appends one short line with a single write, which no other process or
// goroutine can interleave with its own.
func addLine(path, event, id string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the test says where
	if err != nil {
		return fmt.Errorf("interop: record a run: %w", err)
	}
	if _, err := fmt.Fprintf(file, "%s %s %d\n", event, id, os.Getpid()); err != nil {
		_ = file.Close()
		return fmt.Errorf("interop: record a run in %s: %w", path, err)
	}
	return file.Close()
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
