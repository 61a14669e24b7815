// Package acks decides when a message is settled, and how: one pure function
// over the policy of the task and the way it ended. The table it reads is
// Celery's; a row that differs on purpose says so in the row.
package acks

// Policy is what the settings say about a task's acknowledgement.
type Policy struct {
	// Late settles after the task has run (Task.acks_late); otherwise the message
	// is acked just before its handler starts.
	Late bool
	// OnFailure acks a late task that failed (task_acks_on_failure).
	OnFailure bool
	// OnTimeout acks a late task that hit its hard time limit
	// (task_acks_on_timeout).
	OnTimeout bool
	// RejectOnWorkerLost requeues a late task whose handler took its worker down
	// (Task.reject_on_worker_lost).
	RejectOnWorkerLost bool
	// Redeliver has a late task that failed delivered again at once, as often as its
	// message may be delivered. Celery has no such setting: it is how Ray Serve's
	// adapter retries (docs/protocol.md §24).
	Redeliver bool
}

// Outcome is how a task ended.
type Outcome int

// The outcomes of docs/protocol.md's table, in its order.
const (
	// Success: the handler returned and its result can be serialized.
	Success Outcome = iota
	// Failure: the handler returned an error or panicked.
	Failure
	// EncodeFailure: the handler returned something that can't be serialized.
	EncodeFailure
	// Retry: the handler asked for a retry and the copy is published.
	Retry
	// RetryUnpublished: the copy of a retry could not be published.
	RetryUnpublished
	// Ignore: the handler wants no result stored.
	Ignore
	// Reject: the handler rejected the message for good.
	Reject
	// RejectRequeue: the handler rejected the message and wants it delivered again.
	RejectRequeue
	// SoftTimeLimit: the soft time limit ended the handler.
	SoftTimeLimit
	// HardTimeLimit: the hard time limit passed.
	HardTimeLimit
	// WorkerLost: the handler took its worker down.
	WorkerLost
	// Terminated: a remote control command ended the running task.
	Terminated
	// Revoked: the task was revoked before it ran.
	Revoked
	// Expired: the message was past its expires before it ran.
	Expired
	// Cancelled: a cold shutdown ended the running task.
	Cancelled
	// ResultUnstored: the task ended but its result could not be stored.
	ResultUnstored
	// Exhausted: the message should be delivered again but was so as often as it may
	// be, or it came although that was over. Celery has no such limit.
	Exhausted

	outcomes // how many there are
)

// String is the outcome's name for logs and tests.
func (o Outcome) String() string {
	names := [outcomes]string{
		"success", "failure", "encode failure", "retry", "retry unpublished", "ignore", "reject", "reject requeue",
		"soft time limit", "hard time limit", "worker lost", "terminated", "revoked", "expired", "cancelled",
		"result unstored", "exhausted",
	}
	if o < 0 || o >= outcomes {
		return "unknown outcome"
	}
	return names[o]
}

// Settlement is what happens to the message.
type Settlement int

// The settlements.
const (
	// None: nothing is left to do, the message was acked before the task started.
	None Settlement = iota
	// Ack: done.
	Ack
	// Discard: rejected for good; it goes to the dead-letter queue, also if it is acked
	// already, or nowhere where none is set (reject with requeue=False).
	Discard
	// Requeue: delivered again after a while, counted as an attempt (reject with
	// requeue=True).
	Requeue
	// Release: handed back untouched, not counted as an attempt.
	Release
	// Republish: already acked, so a copy is published.
	Republish
	// Nack: delivered again at once, counted as an attempt.
	Nack
)

// String is the settlement's name for logs and tests.
func (s Settlement) String() string {
	names := []string{"none", "ack", "discard", "requeue", "release", "republish", "nack"}
	if s < 0 || int(s) >= len(names) {
		return "unknown settlement"
	}
	return names[s]
}

// Store is the state that is stored for the task, subject to ignore_result.
type Store int

// What is stored.
const (
	StoreNothing Store = iota
	StoreSuccess
	StoreFailure
	StoreRetry
	StoreRevoked
)

// Event is what monitors are told, Celery's task-* events.
type Event string

// The events.
const (
	Succeeded       Event = "task-succeeded"
	Failed          Event = "task-failed"
	Retried         Event = "task-retried"
	RevokedEvent    Event = "task-revoked"
	CancelledEvent  Event = "task-cancelled"
	RejectedForGood Event = "task-rejected(requeue=false)"
	RejectedRequeue Event = "task-rejected(requeue=true)"
)

// Decision is the answer for one task.
type Decision struct {
	Settle Settlement
	Store  Store
	Events []Event
	// Differs says what Celery does instead, where Lovage differs on purpose.
	Differs string
}

// Decide says what happens to the message of a task that ended with outcome
// under policy. An outcome that does not exist is treated as Failure.
func Decide(policy Policy, outcome Outcome) Decision {
	if outcome < 0 || outcome >= outcomes {
		outcome = Failure
	}
	for i := range table {
		if table[i].outcome == outcome && table[i].when.holds(policy) {
			return table[i].then
		}
	}
	// The test walks every policy with every outcome, so this is not reached.
	return Decision{Settle: Requeue}
}
