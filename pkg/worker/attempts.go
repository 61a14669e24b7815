package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// notePatience bounds the note that is kept before a handler starts.
const notePatience = 5 * time.Second

// limit is how often a message may be delivered, and where it goes after that: the
// setting of the worker or the queue, or what the producer asks for if that is less.
// 0 = as often as it takes.
func (w *Worker) limit(j *job) (attempts int, queue string) {
	attempts, queue = j.dialect.limit()
	if asked, to := j.delivery.Limit(); asked > 0 && (attempts == 0 || asked < attempts) {
		return asked, to
	}
	return attempts, queue
}

// attempt tells whether the task may be tried, and has that noted. A message that
// comes although its attempts are used up goes the way of one that was rejected: so
// it is where the workers that had it died with it.
func (w *Worker) attempt(j *job) bool {
	limit, _ := w.limit(j)
	if limit == 0 {
		return true
	}
	lost := w.noteStart(j)
	if j.delivery.Attempt() <= limit {
		return true
	}
	j.outcome = acks.Exhausted
	j.err = &exhaustedError{
		attempts: j.delivery.Attempt() - 1, limit: limit, lost: lost || w.transport.Capabilities().CountsAttempts,
		cause: failureOf(j.failedBefore),
	}
	// What the last attempt has stored is how the task ended.
	j.stored = j.failedBefore
	w.settle(j)
	return false
}

// noteStart keeps a note outside this process that the handler is about to start, and
// tells whether an earlier start came to nothing. Only a late task comes back after a
// crash: without a note the task runs all the same, as it would without a limit.
func (w *Worker) noteStart(j *job) (lost bool) {
	noter, can := j.delivery.(transport.StartNoter)
	if !can || !j.policy.Late || w.transport.Capabilities().CountsAttempts || !w.worthNoting(j) {
		return false
	}
	ctx, cancel := context.WithTimeout(w.settleContext, notePatience)
	defer cancel()
	wasted, err := noter.NoteStart(ctx)
	if err != nil {
		w.observe(StartUnnoted{Request: j.request, Err: err})
	}
	if wasted == 0 {
		return false
	}
	// The message looked new when the request was made.
	j.request.Attempt, j.request.Redelivered, j.mayBeStored = j.delivery.Attempt(), true, true
	return true
}

// worthNoting tells whether the limit of a message is worth the time that a note takes:
// the worker's own is. A producer's is where the tries of a task are the deliveries of
// its message: its producer has set how often it is tried.
func (w *Worker) worthNoting(j *job) bool {
	own, _ := j.dialect.limit()
	return own > 0 || !j.dialect.retriesByCopy()
}

// decide reads the table for the job's outcome. A message that should come back
// although its attempts are used up is exhausted.
func (w *Worker) decide(j *job) acks.Decision {
	decision := acks.Decide(j.policy, j.outcome)
	limit, _ := w.limit(j)
	again := decision.Settle == acks.Requeue || decision.Settle == acks.Republish || decision.Settle == acks.Nack
	if !again || limit == 0 || j.delivery.Attempt() < limit {
		return decision
	}
	j.err = &exhaustedError{
		attempts: j.delivery.Attempt(), limit: limit, lost: j.outcome == acks.WorkerLost, cause: j.err,
		failed: decision.Settle == acks.Nack,
	}
	j.outcome = acks.Exhausted
	return acks.Decide(j.policy, j.outcome)
}

// noteError has the first error travel with the copies of a message.
func (w *Worker) noteError(j *job) {
	if j.err != nil {
		j.delivery.NoteError(j.err.Error())
	}
}

// failureOf is the failure that is stored for a task, nil if none is.
func failureOf(stored *protocol.Meta) error {
	if stored == nil {
		return nil
	}
	exception, ok := stored.Result.(protocol.Exception)
	if !ok {
		return nil
	}
	return tasks.NewPythonError(exception.Module, exception.Type, exception.Args...)
}

// exhaustedError ends a message whose attempts are used up.
type exhaustedError struct {
	attempts, limit int
	// lost: the attempts ended with the worker that made them.
	lost bool
	// cause is how the last attempt ended, nil where nobody knows.
	cause error
	// failed: the last attempt was a failure like any other, and is stored as that.
	failed bool
}

// Error names the limit by Celery's words for a worker that is gone, where it is.
func (e *exhaustedError) Error() string {
	text := fmt.Sprintf("delivered %d times, the limit is %d", e.attempts, e.limit)
	if e.lost {
		text = "Worker exited prematurely: " + text
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns ErrMaxAttempts and the cause.
func (e *exhaustedError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrMaxAttempts}
	}
	return []error{ErrMaxAttempts, e.cause}
}

// PythonException is what Celery stores for a worker that is gone, or for a message
// that is rejected for good.
func (e *exhaustedError) PythonException() protocol.Exception {
	if e.failed {
		return tasks.ExceptionOf(e.cause)
	}
	if e.lost {
		return protocol.Exception{Type: "WorkerLostError", Module: "billiard.exceptions", Args: []any{e.Error()}}
	}
	return protocol.Exception{Type: "Reject", Module: "celery.exceptions", Args: []any{e.Error(), false}}
}
