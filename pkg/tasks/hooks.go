package tasks

import (
	"context"
	"errors"
)

// SuccessHook is called after a handler has returned a result (Celery's
// Task.on_success).
type SuccessHook interface {
	OnSuccess(ctx context.Context, request *Request, result any)
}

// FailureHook is called after a task has failed for good (Celery's
// Task.on_failure).
type FailureHook interface {
	OnFailure(ctx context.Context, request *Request, err error)
}

// RetryHook is called after a task has been sent to run again (Celery's
// Task.on_retry).
type RetryHook interface {
	OnRetry(ctx context.Context, request *Request, retry *RetryError)
}

// Hooks are the hooks of a registry, for the worker to call. Every hook is called
// even if one before it panics; the panics are returned, each a *PanicError.
type Hooks struct {
	success []SuccessHook
	failure []FailureHook
	retry   []RetryHook
}

// AddHook adds a value that implements at least one of SuccessHook, FailureHook
// and RetryHook. It is called for every task of the registry.
func (r *Registry) AddHook(hook any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	success, isSuccess := hook.(SuccessHook)
	if isSuccess {
		r.hooks.success = append(r.hooks.success, success)
	}
	failure, isFailure := hook.(FailureHook)
	if isFailure {
		r.hooks.failure = append(r.hooks.failure, failure)
	}
	retry, isRetry := hook.(RetryHook)
	if isRetry {
		r.hooks.retry = append(r.hooks.retry, retry)
	}
	if !isSuccess && !isFailure && !isRetry {
		r.addMistake("", errors.New("a hook has none of the methods OnSuccess, OnFailure and OnRetry"))
	}
}

// Hooks returns the hooks added so far.
func (r *Registry) Hooks() Hooks {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hooks
}

// Success calls the success hooks.
func (h Hooks) Success(ctx context.Context, request *Request, result any) error {
	return callAll(h.success, func(hook SuccessHook) { hook.OnSuccess(ctx, request, result) })
}

// Failure calls the failure hooks.
func (h Hooks) Failure(ctx context.Context, request *Request, err error) error {
	return callAll(h.failure, func(hook FailureHook) { hook.OnFailure(ctx, request, err) })
}

// Retry calls the retry hooks.
func (h Hooks) Retry(ctx context.Context, request *Request, retry *RetryError) error {
	return callAll(h.retry, func(hook RetryHook) { hook.OnRetry(ctx, request, retry) })
}

func callAll[Hook any](hooks []Hook, call func(Hook)) error {
	var panics []error
	for _, hook := range hooks {
		if panicked := guard(func() { call(hook) }); panicked != nil {
			panics = append(panics, panicked)
		}
	}
	return errors.Join(panics...)
}
