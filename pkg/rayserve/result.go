package rayserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
)

// Status is the state of a task.
type Status = wire.Status

// The states of a task.
const (
	StatusPending   = wire.StatusPending
	StatusStarted   = wire.StatusStarted
	StatusSuccess   = wire.StatusSuccess
	StatusFailure   = wire.StatusFailure
	StatusCancelled = wire.StatusCancelled
)

// TaskResult is what is known of a task, Ray Serve's TaskResult.
type TaskResult struct {
	ID     string
	Status Status
	// Result is what the handler returned, as JSON has it (package protocol lists the
	// types). It is nil where Status is not SUCCESS, and also where a result was too large
	// to be stored, which Error says.
	Result any
	// Error is "<type>: <message>" of a FAILURE, or why a SUCCESS has no result.
	Error string
	// CreatedAt is when the task was enqueued, as its producer wrote it: ISO 8601.
	CreatedAt string
	// CompletedAt is when the task ended, zero where it has not.
	CompletedAt time.Time
}

// TaskError is the error of a handler.
type TaskError struct {
	// Text is "<type>: <message>".
	Text string
}

// Error is the text.
func (e *TaskError) Error() string { return "rayserve: task failed: " + e.Text }

// Status reads the state of a task (get_task_status). As for the adapter, one that
// nothing is known of, or no longer, is PENDING.
func (c *Client) Status(ctx context.Context, id string) (TaskResult, error) {
	meta, err := c.fetch(ctx, id)
	if err != nil {
		return TaskResult{}, fmt.Errorf("rayserve: status: %w", err)
	}
	return resultOf(meta), nil
}

// Wait returns the state of a task once it has ended: SUCCESS, FAILURE or CANCELLED. It
// waits until ctx ends, also for a task that nobody knows. A FAILURE isn't the last word
// if somebody puts the task back to work from the failed task queue.
func (c *Client) Wait(ctx context.Context, id string) (TaskResult, error) {
	meta, err := c.results.Wait(ctx, id)
	if err != nil {
		return TaskResult{}, fmt.Errorf("rayserve: %w", err)
	}
	return resultOf(meta), nil
}

// Cancel stores CANCELLED for a task that has not ended, and tells whether that is now
// its state (cancel_task). It is soft: a worker doesn't run a task that is cancelled
// before it starts; one that runs already may end its handler's context, as a Lovage
// worker does, and its result is not stored. The adapter's own workers run both.
func (c *Client) Cancel(ctx context.Context, id string) (bool, error) {
	meta, err := c.fetch(ctx, id)
	if err != nil {
		return false, fmt.Errorf("rayserve: cancel: %w", err)
	}
	if meta.Status.Ready() {
		return meta.Status == protocol.StateRevoked, nil
	}
	cancelled := protocol.Meta{TaskID: id, Status: protocol.StateRevoked, Extra: map[string]any{}}
	if created, ok := meta.Extra[wire.ExtraCreatedAt]; ok {
		cancelled.Extra[wire.ExtraCreatedAt] = created
	}
	if err := c.results.Store(ctx, cancelled, results.StoreOptions{}); err != nil {
		return false, fmt.Errorf("rayserve: cancel: %w", err)
	}
	// A SUCCESS that was stored in between stays.
	if meta, err = c.fetch(ctx, id); err != nil {
		return false, fmt.Errorf("rayserve: cancel: %w", err)
	}
	return meta.Status == protocol.StateRevoked, nil
}

// fetch reads a task's state, PENDING where there is none.
func (c *Client) fetch(ctx context.Context, id string) (protocol.Meta, error) {
	meta, err := c.results.Fetch(ctx, id)
	if errors.Is(err, results.ErrNotFound) {
		return protocol.Meta{TaskID: id, Status: protocol.StatePending}, nil
	}
	return meta, err
}

func resultOf(meta protocol.Meta) TaskResult {
	r := TaskResult{ID: meta.TaskID, Status: wire.StatusOf(meta.Status), CompletedAt: meta.DateDone}
	r.CreatedAt, _ = meta.Extra[wire.ExtraCreatedAt].(string)
	r.Error, _ = meta.Extra[wire.ExtraError].(string)
	if meta.Status == protocol.StateSuccess {
		r.Result = meta.Result
	}
	return r
}
