package main

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerOutcomes registers tasks that end in something else than a result or
// an error.
func registerOutcomes(r *tasks.Registry) {
	tasks.Handle(r, "interop.retry_then_succeed", retryThenSucceed, tasks.MaxRetries(10))
	tasks.Handle(r, "interop.retry_in_vain", retryInVain, tasks.MaxRetries(2))
	tasks.Handle(r, "interop.reject", reject, tasks.AcksLate())
	tasks.Handle(r, "interop.ignore", ignore)
}

type retryInput struct {
	Failures  int     `celery:"failures"`
	Countdown float64 `celery:"countdown,default=0"`
}

// retryThenSucceed returns the number of retries that it took.
func retryThenSucceed(ctx context.Context, in retryInput) (int, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return 0, err
	}
	if request.Retries < in.Failures {
		return 0, tasks.Retry(ctx, valueError{"not yet"}, tasks.Countdown(seconds(in.Countdown)))
	}
	return request.Retries, nil
}

func retryInVain(ctx context.Context, in messageInput) (any, error) {
	return nil, tasks.Retry(ctx, valueError{in.Message}, tasks.Countdown(0))
}

func reject(_ context.Context, in messageInput) (any, error) {
	return nil, tasks.Reject(in.Message, false)
}

func ignore(_ context.Context, in messageInput) (any, error) {
	return nil, tasks.Ignore(in.Message)
}

var errNoRequest = errors.New("interop: the handler's context has no request")

func currentRequest(ctx context.Context) (*tasks.Request, error) {
	request, ok := tasks.RequestFrom(ctx)
	if !ok {
		return nil, errNoRequest
	}
	return request, nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second))
}
