package tasks

import (
	"context"
	"time"
)

// Request is what a handler runs for: Celery's Task.request. A handler must not
// change it.
type Request struct {
	// ID is the task id, Task the registered name, Shadow the name to show instead,
	// if any.
	ID, Task, Shadow string
	// RootID is the first task of the workflow, ParentID the task that published
	// this one, GroupID the group it is part of; each may be empty.
	RootID, ParentID, GroupID string
	// GroupIndex is the position in the group, nil where unknown.
	GroupIndex *int
	// Retries is how often the task was retried so far. MaxRetries is the limit,
	// RetryLimitless for none.
	Retries, MaxRetries int
	// ETA is the time before which it must not run, Expires the time after which it
	// must not start; zero where there is none.
	ETA, Expires time.Time
	// Args and Kwargs are the arguments as they came.
	Args   []any
	Kwargs map[string]any
	// Headers are the headers that are not Celery's own
	// (apply_async(headers=...)).
	Headers map[string]any
	// Queue is the queue the message was taken from, Hostname this worker's node
	// name, Origin the node that published.
	Queue, Hostname, Origin string
	// ReplyTo and CorrelationID are the message's properties.
	ReplyTo, CorrelationID string
	// Priority is Celery's, 0 to 9.
	Priority int
	// Attempt counts the deliveries of this message, this one included.
	Attempt int
	// Redelivered tells whether the message may have been handed out before.
	Redelivered bool
	// IgnoreResult tells whether the result is thrown away.
	IgnoreResult bool
	// TimeLimit and SoftTimeLimit are the limits of this run, 0 for none.
	TimeLimit, SoftTimeLimit time.Duration
	// StampedHeaders names the stamps, Stamps holds them.
	StampedHeaders []string
	Stamps         map[string]any
}

type requestKey struct{}

// WithRequest returns a context for the handler that runs for request. The worker
// calls it; in a test of a handler it makes Retry work as in a worker.
func WithRequest(ctx context.Context, request *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

// RequestFrom returns the request that a handler runs for, false outside a
// worker.
func RequestFrom(ctx context.Context) (*Request, bool) {
	request, ok := ctx.Value(requestKey{}).(*Request)
	return request, ok && request != nil
}

type taskKey struct{}

func withTask(ctx context.Context, task *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, task)
}

// taskFrom returns the task whose handler runs, nil outside Task.Run.
func taskFrom(ctx context.Context) *Task {
	task, _ := ctx.Value(taskKey{}).(*Task)
	return task
}
