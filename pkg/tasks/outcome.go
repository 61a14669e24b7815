package tasks

import (
	"errors"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// celeryExceptions is the Python module of Celery's own exceptions.
const celeryExceptions = "celery.exceptions"

// Outcome is an error that ends a task in a way of its own: *RetryError,
// *RejectError, *IgnoreError, or *ExhaustedError, which is a failure.
type Outcome interface {
	error
	outcome()
}

// OutcomeOf returns the outermost outcome in the chain of err. An outcome further
// in, such as a Reject that was the cause of a Retry, doesn't count.
func OutcomeOf(err error) (Outcome, bool) {
	var outcome Outcome
	ok := errors.As(err, &outcome)
	return outcome, ok
}

// RejectError ends a task whose message is given back; Reject makes it.
type RejectError struct {
	// Reason is why.
	Reason string
	// Requeue puts the message back into its queue; else it goes to the dead-letter
	// queue, or is dropped where there is none.
	Requeue bool
}

// Reject returns the error with which a handler gives its message back (Celery's
// Reject exception). With requeue the message goes back to its queue; without,
// it goes to the dead-letter queue and the task is a failure.
func Reject(reason string, requeue bool) error {
	return &RejectError{Reason: reason, Requeue: requeue}
}

// Error tells the reason, and whether the message is requeued.
func (e *RejectError) Error() string {
	if e.Requeue {
		return "tasks: rejected and requeued: " + e.Reason
	}
	return "tasks: rejected: " + e.Reason
}

func (*RejectError) outcome() {}

// PythonException is celery.exceptions.Reject(reason, requeue).
func (e *RejectError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "Reject", Module: celeryExceptions, Args: []any{e.Reason, e.Requeue}}
}

// IgnoreError ends a task that stores no result; Ignore makes it.
type IgnoreError struct {
	// Reason is why, for the log.
	Reason string
}

// Ignore returns the error with which a handler ends without a result: the
// message is acked, nothing is stored, nothing follows (Celery's Ignore
// exception).
func Ignore(reason string) error {
	return &IgnoreError{Reason: reason}
}

// Error tells the reason.
func (e *IgnoreError) Error() string { return "tasks: ignored: " + e.Reason }

func (*IgnoreError) outcome() {}

// PythonException is celery.exceptions.Ignore(reason).
func (e *IgnoreError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "Ignore", Module: celeryExceptions, Args: []any{e.Reason}}
}
