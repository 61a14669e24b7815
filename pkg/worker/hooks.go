package worker

import (
	"context"
	"slices"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// callReceivedHooks calls the hooks for a task that is going to run.
func (w *Worker) callReceivedHooks(j *job) {
	if hooks := w.registry.Hooks(); !hooks.None() {
		w.reportHooks(j.request, hooks.Received(w.hookContext(j.request), j.request))
	}
}

// callPrerunHooks calls the hooks for a handler that is about to be called.
func (w *Worker) callPrerunHooks(j *job) {
	j.prerun = true
	if hooks := w.registry.Hooks(); !hooks.None() {
		w.reportHooks(j.request, hooks.Prerun(w.hookContext(j.request), j.request))
	}
}

// callHooks calls the hooks for the end of a task: those that go with the events
// of the decision, so that a task which is handed back has not failed.
func (w *Worker) callHooks(j *job, decision acks.Decision) {
	if j.stored != nil {
		return // the run that stored it called them, as in Celery
	}
	hooks := j.task.Hooks().Then(w.registry.Hooks())
	if hooks.None() {
		return
	}
	ctx := w.hookContext(j.request)
	for _, event := range decision.Events {
		w.reportHooks(j.request, callEventHooks(ctx, hooks, j, event))
	}
	if j.prerun {
		j.prerun = false
		var result any
		if j.outcome == acks.Success {
			result = j.value
		}
		w.reportHooks(j.request, hooks.Postrun(ctx, j.request, stateOf(j.outcome, decision), result, j.err))
	}
}

func callEventHooks(ctx context.Context, hooks tasks.Hooks, j *job, event acks.Event) error {
	switch event {
	case acks.Succeeded:
		return hooks.Success(ctx, j.request, j.value)
	case acks.Failed:
		return hooks.Failure(ctx, j.request, j.err)
	case acks.Retried:
		return hooks.Retry(ctx, j.request, retryOf(j))
	case acks.RevokedEvent:
		return hooks.Revoked(ctx, j.request, j.outcome == acks.Expired)
	case acks.RejectedForGood, acks.RejectedRequeue:
		return hooks.Rejected(ctx, tasks.Rejection{
			Request: j.request, Queue: j.request.Queue, Reason: reasonText(j.err),
			Requeue: event == acks.RejectedRequeue, Err: j.err,
		})
	case acks.CancelledEvent: // nothing is sent to run again: Celery calls on_retry all the same
	}
	return nil
}

// stateOf is the state that Celery's task_postrun tells.
func stateOf(outcome acks.Outcome, decision acks.Decision) string {
	switch outcome {
	case acks.Success:
		return string(protocol.StateSuccess)
	case acks.Retry, acks.Cancelled:
		return string(protocol.StateRetry)
	case acks.Ignore:
		return "IGNORED"
	case acks.Reject, acks.RejectRequeue:
		return "REJECTED"
	case acks.Terminated:
		return string(protocol.StateRevoked)
	default:
	}
	if slices.Contains(decision.Events, acks.Failed) {
		return string(protocol.StateFailure)
	}
	if slices.Contains(decision.Events, acks.Retried) {
		return string(protocol.StateRetry)
	}
	return "REJECTED" // handed back
}

// callUnknownHooks calls the hooks for a message whose task nobody here knows.
func (w *Worker) callUnknownHooks(task, id, queue string) {
	w.reportHooks(nil, w.registry.Hooks().Unknown(w.hookContext(nil), task, id, queue))
}

// callUnprocessableHooks calls the hooks for a message that is no task.
func (w *Worker) callUnprocessableHooks(queue, reason string, err error) {
	w.reportHooks(nil, w.registry.Hooks().Rejected(w.hookContext(nil), tasks.Rejection{Queue: queue, Reason: reason, Err: err}))
}

// hookContext outlives the worker's own: hooks are called while it stops.
func (w *Worker) hookContext(request *tasks.Request) context.Context {
	if request == nil {
		return w.settleContext
	}
	return tasks.WithRequest(w.settleContext, request)
}

func (w *Worker) reportHooks(request *tasks.Request, panicked error) {
	if panicked != nil {
		w.observe(HookPanicked{Request: request, Err: panicked})
	}
}
