package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerRetries registers tasks that are retried: by themselves, elsewhere, or in
// vain.
func registerRetries(r *tasks.Registry) {
	valueErrors := tasks.AutoRetryFor(tasks.ErrorType[valueError]())
	tasks.Handle(r, "interop.auto_retry", autoRetry, valueErrors, tasks.MaxRetries(10),
		tasks.AutoRetryOptions(tasks.Countdown(0)))
	tasks.Handle(r, "interop.auto_retry_backoff", autoRetry, valueErrors,
		tasks.RetryBackoff(1), tasks.RetryJitter(false))
	tasks.Handle(r, "interop.auto_retry_exempt", autoRetry, valueErrors, tasks.DontAutoRetryFor(tasks.AnyError))
	tasks.Handle(r, "interop.retry_unwilling", retryUnwilling, tasks.MaxRetries(0))
	// A Celery worker knows this name too, see app.py.
	tasks.Handle(r, "both.describe", describe)
}

// autoRetry fails a number of times and returns how often it was retried.
func autoRetry(ctx context.Context, in retryInput) (int, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return 0, err
	}
	if request.Retries < in.Failures {
		return 0, fmt.Errorf("run %d: %w", request.Retries, valueError{"not yet"})
	}
	return request.Retries, nil
}

// retryUnwilling has something to say when there are no retries left.
func retryUnwilling(ctx context.Context, in messageInput) (any, error) {
	err := tasks.Retry(ctx, valueError{in.Message})
	if errors.Is(err, tasks.ErrMaxRetriesExceeded) {
		err = fmt.Errorf("someone was paged: %w", err)
	}
	return nil, err
}

type describeInput struct {
	Queue    string         `celery:"queue"`
	Priority int            `celery:"priority"`
	Headers  map[string]any `celery:"headers,optional"`
}

// describe sends itself to another queue once and then tells what it was sent with.
func describe(ctx context.Context, in describeInput) (map[string]any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	if request.Retries == 0 {
		return nil, tasks.Retry(ctx, nil, tasks.Countdown(time.Second),
			tasks.RetryQueue(in.Queue), tasks.RetryPriority(in.Priority), tasks.RetryHeaders(in.Headers))
	}
	return map[string]any{
		"by": "go", "queue": request.Queue, "priority": request.Priority, "retries": request.Retries,
		"headers": request.Headers, "stamps": request.Stamps, "shadow": request.Shadow, "origin": request.Origin,
		"args": request.Args, "kwargs": request.Kwargs, "group": request.GroupID,
		"timelimit": []any{request.TimeLimit.Seconds(), request.SoftTimeLimit.Seconds()},
	}, nil
}
