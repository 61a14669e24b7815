package protocol

import "time"

// State is the state of a task in the result backend.
type State string

// Celery's states. PENDING is what Celery calls an id it knows nothing about; it
// is never stored.
const (
	StatePending State = "PENDING"
	StateStarted State = "STARTED"
	StateSuccess State = "SUCCESS"
	StateFailure State = "FAILURE"
	StateRetry   State = "RETRY"
	StateRevoked State = "REVOKED"
)

// Ready tells whether the state is final (Celery's READY_STATES).
func (s State) Ready() bool {
	return s == StateSuccess || s == StateFailure || s == StateRevoked
}

// Exception is Celery's form of an exception in a result.
type Exception struct {
	// Type is the class's qualified name, Module the Python module it lives in.
	// A client that can't import the module makes up a class of that name.
	Type, Module string
	// Args are the exception's args.
	Args []any
}

// Meta is the record a result backend stores for a task.
type Meta struct {
	TaskID string
	Status State
	// Result is the return value (SUCCESS), an Exception (FAILURE, REVOKED, and
	// RETRY if it has a cause), or the state's own meta.
	Result any
	// Traceback is "" where Celery has null.
	Traceback string
	// Children are result tuples of what the task published; nil becomes [].
	Children []any
	// DateDone is set for ready states.
	DateDone time.Time
	// GroupID and ParentID are left out where empty.
	GroupID, ParentID string
	// Extra are the keys of result_extended and stamps, merged at the top level.
	Extra map[string]any
}
