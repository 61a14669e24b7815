package tasks

import (
	"context"
	"errors"
)

// A hook is a value with at least one of the methods below. A hook of a registry
// (Registry.AddHook) is called for all tasks, as Celery's signals are; OnSuccess,
// OnFailure, OnRetry and OnExhausted make one for a single task, as the methods
// of a Celery task are.
//
// A hook is called on the goroutine of its task, which keeps the task's slot and,
// where the message is acked late, the message: one that takes long slows the
// worker down. Its context holds the request (RequestFrom) and doesn't end when
// the worker stops. A panic in a hook is reported and harms nothing. A hook that ends
// its goroutine (runtime.Goexit) is the last one called: before the handler has ended
// that counts as a lost worker, a received hook has the message delivered again.
type (
	// ReceivedHook is called when a task has been taken from its queue and is going
	// to run here (task_received). A task that waits for its ETA on the broker is
	// received when its time comes.
	ReceivedHook interface {
		OnReceived(ctx context.Context, request *Request)
	}
	// PrerunHook is called just before the handler (task_prerun).
	PrerunHook interface {
		OnPrerun(ctx context.Context, request *Request)
	}
	// PostrunHook is called once for each call of PrerunHook, after the other hooks
	// of the task's end (task_postrun). State is Celery's: SUCCESS, FAILURE, RETRY,
	// IGNORED, REJECTED or REVOKED. Result is that of a success, err what ended the
	// task otherwise.
	PostrunHook interface {
		OnPostrun(ctx context.Context, request *Request, state string, result any, err error)
	}
	// SuccessHook is called after the handler has returned a result and it is stored
	// (Task.on_success, task_success). Result is what protocol.ToValue makes of it.
	SuccessHook interface {
		OnSuccess(ctx context.Context, request *Request, result any)
	}
	// FailureHook is called after the task has failed for good (Task.on_failure,
	// task_failure).
	FailureHook interface {
		OnFailure(ctx context.Context, request *Request, err error)
	}
	// ExhaustedHook is called just before FailureHook if the task has failed because
	// no retries are left. Celery has no such hook.
	ExhaustedHook interface {
		OnExhausted(ctx context.Context, request *Request, err *ExhaustedError)
	}
	// RetryHook is called after the task has been sent to run again (Task.on_retry,
	// task_retry).
	RetryHook interface {
		OnRetry(ctx context.Context, request *Request, retry *RetryError)
	}
	// RevokedHook is called for a task that doesn't run, or not to its end, because
	// it was revoked or, if expired, because it came too late (task_revoked).
	RevokedHook interface {
		OnRevoked(ctx context.Context, request *Request, expired bool)
	}
	// RejectedHook is called for a message that is rejected, whether its task has run
	// or it was no task at all. Celery's task_rejected is sent for the latter only.
	RejectedHook interface {
		OnRejected(ctx context.Context, rejection Rejection)
	}
	// UnknownHook is called for a message whose task is not registered, once the
	// worker gives it up (task_unknown).
	UnknownHook interface {
		OnUnknown(ctx context.Context, task, id, queue string)
	}
	// DeadLetterHook is called after a message has been moved to the dead-letter
	// queue. err is why.
	DeadLetterHook interface {
		OnDeadLetter(ctx context.Context, taskID string, err error)
	}
)

// Rejection is what RejectedHook is told.
type Rejection struct {
	// Request is nil where the message could not become a task.
	Request *Request
	// Queue is where the message came from.
	Queue string
	// Reason is why, in the words of the handler or the worker.
	Reason string
	// Requeue tells that the message will be delivered again.
	Requeue bool
	// Err is the error behind the reason.
	Err error
}

// isHook tells whether a value has a method of a hook.
func isHook(value any) bool {
	switch value.(type) {
	case ReceivedHook, PrerunHook, PostrunHook, SuccessHook, FailureHook, ExhaustedHook, RetryHook, RevokedHook,
		RejectedHook, UnknownHook, DeadLetterHook:
		return true
	}
	return false
}

// AddHook adds a hook for every task of the registry: a value that implements at
// least one of the interfaces above. Hooks are called in the order in which they
// were added.
func (r *Registry) AddHook(hook any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isHook(hook) {
		r.addMistake("", errors.New("a hook has none of the methods of a hook, such as OnFailure"))
		return
	}
	r.hooks.all = append(r.hooks.all, hook)
}

// Hooks returns the hooks added so far.
func (r *Registry) Hooks() Hooks {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hooks
}

// Hooks are hooks for the worker to call. Every hook is called even if one before
// it panics; the panics are returned, each a *PanicError.
type Hooks struct{ all []any }

// None tells whether there are no hooks, so that there is nothing to prepare for them.
func (h Hooks) None() bool { return len(h.all) == 0 }

// Then returns the hooks followed by more.
func (h Hooks) Then(more Hooks) Hooks {
	if len(h.all) == 0 {
		return more
	}
	return Hooks{append(h.all[:len(h.all):len(h.all)], more.all...)}
}

// Received calls the received hooks.
func (h Hooks) Received(ctx context.Context, request *Request) error {
	return callAll(h, func(hook ReceivedHook) { hook.OnReceived(ctx, request) })
}

// Prerun calls the prerun hooks.
func (h Hooks) Prerun(ctx context.Context, request *Request) error {
	return callAll(h, func(hook PrerunHook) { hook.OnPrerun(ctx, request) })
}

// Postrun calls the postrun hooks.
func (h Hooks) Postrun(ctx context.Context, request *Request, state string, result any, err error) error {
	return callAll(h, func(hook PostrunHook) { hook.OnPostrun(ctx, request, state, result, err) })
}

// Success calls the success hooks.
func (h Hooks) Success(ctx context.Context, request *Request, result any) error {
	return callAll(h, func(hook SuccessHook) { hook.OnSuccess(ctx, request, result) })
}

// Failure calls the failure hooks, and before them the exhausted hooks if err
// says that no retries are left.
func (h Hooks) Failure(ctx context.Context, request *Request, err error) error {
	var exhausted error
	outcome, _ := OutcomeOf(err)
	if e, ok := outcome.(*ExhaustedError); ok {
		exhausted = callAll(h, func(hook ExhaustedHook) { hook.OnExhausted(ctx, request, e) })
	}
	return errors.Join(exhausted, callAll(h, func(hook FailureHook) { hook.OnFailure(ctx, request, err) }))
}

// Retry calls the retry hooks.
func (h Hooks) Retry(ctx context.Context, request *Request, retry *RetryError) error {
	return callAll(h, func(hook RetryHook) { hook.OnRetry(ctx, request, retry) })
}

// Revoked calls the revoked hooks.
func (h Hooks) Revoked(ctx context.Context, request *Request, expired bool) error {
	return callAll(h, func(hook RevokedHook) { hook.OnRevoked(ctx, request, expired) })
}

// Rejected calls the rejected hooks.
func (h Hooks) Rejected(ctx context.Context, rejection Rejection) error {
	return callAll(h, func(hook RejectedHook) { hook.OnRejected(ctx, rejection) })
}

// Unknown calls the unknown hooks.
func (h Hooks) Unknown(ctx context.Context, task, id, queue string) error {
	return callAll(h, func(hook UnknownHook) { hook.OnUnknown(ctx, task, id, queue) })
}

// DeadLetter calls the dead-letter hooks.
func (h Hooks) DeadLetter(ctx context.Context, taskID string, err error) error {
	return callAll(h, func(hook DeadLetterHook) { hook.OnDeadLetter(ctx, taskID, err) })
}

// callAll calls those hooks that have the method.
func callAll[Hook any](h Hooks, call func(Hook)) error {
	var panics []error
	for _, value := range h.all {
		hook, ok := value.(Hook)
		if !ok {
			continue
		}
		if panicked := guard(func() { call(hook) }); panicked != nil {
			panics = append(panics, panicked)
		}
	}
	return errors.Join(panics...)
}
