package tasks

import (
	"context"
	"errors"
	"fmt"
	"math"
)

var (
	// ErrTaskCancelled is the cause with which a handler's context is cancelled because
	// the caller has cancelled the task (cancel_task_sync of Ray Serve's adapter).
	ErrTaskCancelled = errors.New("tasks: the caller has cancelled the task")
	// ErrNotInWorker is returned by Progress outside a worker.
	ErrNotInWorker = errors.New("tasks: the context is not that of a handler in a worker")
)

type progressKey struct{}

// ReportFunc tells how far a handler has come.
type ReportFunc func(ctx context.Context, percent float64, detail string) error

// WithProgress returns a context in which Progress calls report. The worker calls it;
// a test of a handler may.
func WithProgress(ctx context.Context, report ReportFunc) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress tells those who watch how far a handler has come: percent is 0 to 100 by
// convention, and detail may be empty. On a queue of Ray Serve's protocol it is an
// event on "<queue>.progress" (report_progress), for a Celery task the custom state
// PROGRESS with {"pct": percent, "detail": detail} (update_state), unless its result
// is ignored.
//
// An error says that it could not be told; a handler may go on. It wraps
// ErrNotInWorker outside a worker.
func Progress(ctx context.Context, percent float64, detail string) error {
	report, ok := ctx.Value(progressKey{}).(ReportFunc)
	if !ok {
		return fmt.Errorf("tasks: progress of %v %%: %w", percent, ErrNotInWorker)
	}
	if math.IsNaN(percent) || math.IsInf(percent, 0) {
		return fmt.Errorf("tasks: progress of %v %%: not a finite number", percent)
	}
	return report(ctx, percent, detail)
}
