package tasks

import (
	"context"
	"errors"
)

// OnSuccess adds a hook of the task, see SuccessHook. As in Celery the hooks of a
// task are called before those of the registry.
func OnSuccess(hook func(ctx context.Context, request *Request, result any)) Option {
	return taskHook("OnSuccess", hook == nil, successFunc(hook))
}

// OnFailure adds a hook of the task, see FailureHook.
func OnFailure(hook func(ctx context.Context, request *Request, err error)) Option {
	return taskHook("OnFailure", hook == nil, failureFunc(hook))
}

// OnExhausted adds a hook of the task, see ExhaustedHook.
func OnExhausted(hook func(ctx context.Context, request *Request, err *ExhaustedError)) Option {
	return taskHook("OnExhausted", hook == nil, exhaustedFunc(hook))
}

// OnRetry adds a hook of the task, see RetryHook.
func OnRetry(hook func(ctx context.Context, request *Request, retry *RetryError)) Option {
	return taskHook("OnRetry", hook == nil, retryFunc(hook))
}

func taskHook(name string, isNil bool, hook any) Option {
	return func(o *Options) error {
		if isNil {
			return errors.New(name + ": the hook is nil")
		}
		o.hooks.all = append(o.hooks.all, hook)
		return nil
	}
}

// Hooks are the task's own hooks.
func (t *Task) Hooks() Hooks { return t.options.hooks }

type (
	successFunc   func(ctx context.Context, request *Request, result any)
	failureFunc   func(ctx context.Context, request *Request, err error)
	exhaustedFunc func(ctx context.Context, request *Request, err *ExhaustedError)
	retryFunc     func(ctx context.Context, request *Request, retry *RetryError)
)

func (f successFunc) OnSuccess(ctx context.Context, request *Request, result any) {
	f(ctx, request, result)
}

func (f failureFunc) OnFailure(ctx context.Context, request *Request, err error) {
	f(ctx, request, err)
}

func (f exhaustedFunc) OnExhausted(ctx context.Context, request *Request, err *ExhaustedError) {
	f(ctx, request, err)
}

func (f retryFunc) OnRetry(ctx context.Context, request *Request, retry *RetryError) {
	f(ctx, request, retry)
}
