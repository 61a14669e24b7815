package rayserve

import "github.com/lovage-project/lovage/pkg/protocol"

// Status is the state of a task by the adapter's name.
type Status string

// The adapter's states. PENDING is stored by the producer, before the task is sent.
const (
	StatusPending   Status = "PENDING"
	StatusStarted   Status = "STARTED"
	StatusSuccess   Status = "SUCCESS"
	StatusFailure   Status = "FAILURE"
	StatusCancelled Status = "CANCELLED"
)

// Ended tells whether a task is over: SUCCESS, FAILURE and CANCELLED.
func (s Status) Ended() bool { return s.State().Ready() }

// State is Celery's name of the state: REVOKED for CANCELLED, else the same.
func (s Status) State() protocol.State {
	if s == StatusCancelled {
		return protocol.StateRevoked
	}
	return protocol.State(s)
}

// StatusOf is the adapter's name of one of Celery's states: CANCELLED for REVOKED, and
// STARTED for RETRY, which the adapter's callers don't know; else the same.
func StatusOf(state protocol.State) Status {
	switch state {
	case protocol.StateRevoked:
		return StatusCancelled
	case protocol.StateRetry:
		return StatusStarted
	default:
		return Status(state)
	}
}
