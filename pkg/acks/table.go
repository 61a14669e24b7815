package acks

// condition is one field of a policy in a row of the table.
type condition int

const (
	either condition = iota // the row holds whatever the policy says
	yes
	no
)

func (c condition) holds(value bool) bool {
	return c == either || (c == yes) == value
}

// conditions are the policies a row is for.
type conditions struct {
	late, onFailure, onTimeout, rejectOnLost, redeliver condition
}

func (c conditions) holds(p Policy) bool {
	return c.late.holds(p.Late) && c.onFailure.holds(p.OnFailure) &&
		c.onTimeout.holds(p.OnTimeout) && c.rejectOnLost.holds(p.RejectOnWorkerLost) &&
		c.redeliver.holds(p.Redeliver)
}

type row struct {
	outcome Outcome
	when    conditions
	then    Decision
}

var (
	early = conditions{late: no}
	late  = conditions{late: yes}
	// lateAcked and lateRejected are late tasks with acks_on_failure on and off.
	lateAcked    = conditions{late: yes, onFailure: yes}
	lateRejected = conditions{late: yes, onFailure: no}
	// A failure that is redelivered is settled in that way whatever acks_on_failure says.
	failureAcked    = conditions{late: yes, onFailure: yes, redeliver: no}
	failureRejected = conditions{late: yes, onFailure: no, redeliver: no}
	redelivered     = conditions{late: yes, redeliver: yes}
)

func events(e ...Event) []Event { return e }

// table is read from the top; for every policy and outcome exactly one row holds
// (TestTableIsComplete). Celery's order of events is kept: a reject is reported
// before the failure it belongs to.
var table = []row{
	{Success, early, Decision{Settle: None, Store: StoreSuccess, Events: events(Succeeded)}},
	{Success, late, Decision{Settle: Ack, Store: StoreSuccess, Events: events(Succeeded)}},

	{Failure, early, Decision{Settle: None, Store: StoreFailure, Events: events(Failed)}},
	{Failure, failureAcked, Decision{Settle: Ack, Store: StoreFailure, Events: events(Failed)}},
	{Failure, failureRejected, Decision{Settle: Discard, Store: StoreFailure, Events: events(RejectedForGood, Failed)}},
	{Failure, redelivered, Decision{Settle: Nack, Store: StoreNothing, Events: events(Retried)}},

	{EncodeFailure, early, Decision{Settle: None, Store: StoreFailure, Events: events(Failed)}},
	{EncodeFailure, lateAcked, Decision{Settle: Ack, Store: StoreFailure, Events: events(Failed)}},
	{EncodeFailure, lateRejected, Decision{Settle: Discard, Store: StoreFailure, Events: events(RejectedForGood, Failed)}},

	{Retry, early, Decision{Settle: None, Store: StoreRetry, Events: events(Retried)}},
	{Retry, late, Decision{Settle: Ack, Store: StoreRetry, Events: events(Retried)}},

	{RetryUnpublished, early, Decision{
		Settle: None, Store: StoreFailure, Events: events(Failed),
	}},
	{RetryUnpublished, late, Decision{
		Settle: Requeue, Store: StoreNothing, Events: events(RejectedRequeue),
		Differs: "Celery rejects the message for good, and the task is lost",
	}},

	{Ignore, early, Decision{Settle: None, Store: StoreNothing}},
	{Ignore, late, Decision{Settle: Ack, Store: StoreNothing}},

	{Reject, early, Decision{
		Settle: Discard, Store: StoreFailure, Events: events(Failed),
		Differs: "Celery has acked the message: it is gone",
	}},
	{Reject, late, Decision{Settle: Discard, Store: StoreFailure, Events: events(Failed, RejectedForGood)}},

	{RejectRequeue, early, Decision{
		Settle: Republish, Store: StoreNothing,
		Differs: "Celery has acked the message and loses it",
	}},
	{RejectRequeue, late, Decision{Settle: Requeue, Store: StoreNothing, Events: events(RejectedRequeue)}},

	{SoftTimeLimit, early, Decision{Settle: None, Store: StoreFailure, Events: events(Failed)}},
	{SoftTimeLimit, failureAcked, Decision{Settle: Ack, Store: StoreFailure, Events: events(Failed)}},
	{SoftTimeLimit, failureRejected, Decision{Settle: Discard, Store: StoreFailure, Events: events(RejectedForGood, Failed)}},
	{SoftTimeLimit, redelivered, Decision{Settle: Nack, Store: StoreNothing, Events: events(Retried)}},

	{HardTimeLimit, early, Decision{
		Settle: None, Store: StoreFailure, Events: events(Failed),
		Differs: "Celery stores the failure twice and reports it twice",
	}},
	{HardTimeLimit, conditions{late: yes, onTimeout: yes, redeliver: no}, Decision{
		Settle: Ack, Store: StoreFailure, Events: events(Failed),
		Differs: "Celery stores the failure twice and reports it twice",
	}},
	{HardTimeLimit, conditions{late: yes, onTimeout: no, redeliver: no}, Decision{
		Settle: Requeue, Store: StoreFailure, Events: events(RejectedRequeue, Failed),
	}},
	{HardTimeLimit, redelivered, Decision{Settle: Nack, Store: StoreNothing, Events: events(Retried)}},

	{WorkerLost, early, Decision{Settle: None, Store: StoreFailure, Events: events(Failed)}},
	{WorkerLost, conditions{late: yes, rejectOnLost: yes}, Decision{
		Settle: Requeue, Store: StoreNothing, Events: events(RejectedRequeue),
	}},
	{WorkerLost, conditions{late: yes, onFailure: yes, rejectOnLost: no}, Decision{
		Settle: Ack, Store: StoreFailure, Events: events(Failed),
	}},
	{WorkerLost, conditions{late: yes, onFailure: no, rejectOnLost: no}, Decision{
		Settle: Discard, Store: StoreFailure, Events: events(RejectedForGood, Failed),
	}},

	{Terminated, early, Decision{Settle: None, Store: StoreRevoked, Events: events(RevokedEvent)}},
	{Terminated, late, Decision{Settle: Ack, Store: StoreRevoked, Events: events(RevokedEvent)}},

	// Before the handler starts nothing is acked yet, early or late.
	{Revoked, conditions{}, Decision{Settle: Ack, Store: StoreRevoked, Events: events(RevokedEvent)}},
	{Expired, conditions{}, Decision{Settle: Ack, Store: StoreRevoked, Events: events(RevokedEvent)}},

	{Cancelled, early, Decision{Settle: None, Store: StoreRetry, Events: events(CancelledEvent)}},
	{Cancelled, late, Decision{Settle: Release, Store: StoreNothing, Events: events(CancelledEvent)}},

	{ResultUnstored, early, Decision{Settle: None, Store: StoreNothing}},
	{ResultUnstored, late, Decision{
		Settle: Requeue, Store: StoreNothing, Events: events(RejectedRequeue),
		Differs: "Celery acks the message and the result is missing",
	}},

	// An early task gets here by Republish only: it is acked, but wanted again.
	{Exhausted, conditions{}, Decision{
		Settle: Discard, Store: StoreFailure, Events: events(Failed, RejectedForGood),
		Differs: "Celery delivers the message again, for ever",
	}},
}
