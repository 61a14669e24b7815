package gocelery

import (
	"errors"
	"fmt"
	"time"

	upstream "github.com/gocelery/gocelery"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
)

// ErrNotReady is what Backend.GetResult returns for a task that has not ended.
var ErrNotReady = errors.New("gocelery: the task has not ended")

// Backend is gocelery's CeleryBackend over a result backend, for its client.
//
// AsyncResult.Get returns the result of a task that succeeded. For one that failed
// it waits until its timeout: gocelery takes any state but SUCCESS for "not yet".
type Backend struct {
	// Results is where the worker stores results. It must have been started.
	Results results.Backend
	// Timeout bounds a call; 0 is 10 s.
	Timeout time.Duration
}

var _ upstream.CeleryBackend = (*Backend)(nil)

// GetResult returns the result of a task that has ended, with numbers as float64.
// Until then it is an error, results.ErrNotFound or ErrNotReady, because
// AsyncResult takes no result without an error for None.
func (b *Backend) GetResult(taskID string) (*upstream.ResultMessage, error) {
	ctx, cancel := withTimeout(b.Timeout)
	defer cancel()
	meta, err := b.Results.Fetch(ctx, taskID)
	if err != nil {
		return nil, fmt.Errorf("gocelery: can't read the result of task %s: %w", taskID, err)
	}
	if !meta.Status.Ready() {
		return nil, fmt.Errorf("%w: task %s is %s", ErrNotReady, taskID, meta.Status)
	}
	message := &upstream.ResultMessage{ID: taskID, Status: string(meta.Status), Result: jsonValue(plainResult(meta.Result))}
	message.Children, _ = jsonValue(meta.Children).([]any)
	if meta.Traceback != "" {
		message.Traceback = meta.Traceback
	}
	return message, nil
}

func plainResult(result any) any {
	if exception, ok := result.(protocol.Exception); ok {
		return exception.Value()
	}
	return result
}

// SetResult stores a result. The worker does so by itself for the tasks it runs.
func (b *Backend) SetResult(taskID string, message *upstream.ResultMessage) error {
	meta, err := metaOf(taskID, message)
	if err != nil {
		return fmt.Errorf("gocelery: can't encode the result of task %s: %w", taskID, err)
	}
	ctx, cancel := withTimeout(b.Timeout)
	defer cancel()
	if err := b.Results.Store(ctx, meta, results.StoreOptions{}); err != nil {
		return fmt.Errorf("gocelery: can't store the result of task %s: %w", taskID, err)
	}
	return nil
}

func metaOf(taskID string, message *upstream.ResultMessage) (protocol.Meta, error) {
	meta := protocol.Meta{TaskID: taskID, Status: protocol.State(message.Status)}
	if message.Traceback != nil {
		meta.Traceback = fmt.Sprint(message.Traceback)
	}
	if meta.Status.Ready() {
		meta.DateDone = time.Now()
	}
	children, err := protocol.ToValue(message.Children)
	if err != nil {
		return meta, err
	}
	meta.Children, _ = children.([]any)
	meta.Result, err = protocol.ToValue(message.Result)
	return meta, err
}
