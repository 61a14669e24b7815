package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

// The reasons under which messages are kept in the unprocessable queue.
const (
	reasonEnvelope     = "envelope"
	reasonUnknown      = "unknown-message"
	reasonContent      = "content-disallowed"
	reasonUndecodable  = "undecodable"
	reasonInvalid      = "invalid"
	reasonUnregistered = "unregistered"
	reasonUnsupported  = "unsupported"
	reasonRejected     = "rejected"
)

// requeueBase and requeueMax bound the delay of a requeue, which doubles with
// each attempt, so that a requeue loop costs no CPU.
const (
	requeueBase = time.Second
	requeueMax  = time.Minute
)

// refuse keeps a message that can't become a task: Celery drops it or dies.
func (w *Worker) refuse(j *job, err error) {
	var unknown *protocol.UnknownTaskError
	var unsupported *unsupportedError
	switch {
	case errors.As(err, &unknown):
		w.refuseUnknown(j, unknown)
	case errors.As(err, &unsupported):
		w.storeRefusal(meta(unsupported.id, protocol.StateFailure), protocol.Exception{
			Type: "NotImplementedError", Module: "builtins", Args: []any{unsupported.Error()},
		})
		w.unprocessable(j, err)
	default:
		w.unprocessable(j, err)
	}
}

// refuseUnknown: FAILURE NotRegistered as Celery, and the message is kept, or
// handed to the other workers of the queue a number of times first.
func (w *Worker) refuseUnknown(j *job, err *protocol.UnknownTaskError) {
	queue := j.delivery.Queue()
	event := TaskUnknown{Task: err.Task, ID: err.ID, Queue: queue}
	if w.options.UnknownTask == UnknownRequeue && j.delivery.Attempt() < w.options.UnknownAttempts {
		event.Requeued = true
		w.observe(event)
		w.requeue(j)
		return
	}
	m := meta(err.ID, protocol.StateFailure)
	m.GroupID, m.ParentID = err.GroupID, err.ParentID
	w.storeRefusal(m, protocol.Exception{
		Type: "NotRegistered", Module: "celery.exceptions", Args: []any{err.Task},
	})
	event.KeptIn = w.keep(j, w.options.unprocessableQueue(queue), reasonUnregistered, err)
	w.observe(event)
	w.callUnknownHooks(err.Task, err.ID, queue)
}

// storeRefusal stores the failure of a message that is refused, if it has an id
// and the backend takes it; the message is kept in any case.
func (w *Worker) storeRefusal(m protocol.Meta, exception protocol.Exception) {
	if m.TaskID == "" || w.backend == nil {
		return
	}
	m.Result = exception
	// Another worker may have stored a state: this one may be a retry. An error was
	// reported to the observers; the message is kept all the same.
	_ = w.storeMeta(m, false)
}

func (w *Worker) unprocessable(j *job, err error) {
	reason := reasonOf(err)
	kept := w.keep(j, w.options.unprocessableQueue(j.delivery.Queue()), reason, err)
	w.observe(MessageUnprocessable{Queue: j.delivery.Queue(), KeptIn: kept, Reason: reason, Err: err})
	w.callUnprocessableHooks(j.delivery.Queue(), reason, err)
}

// keep moves the raw message to a queue, or drops it where there is none. It
// returns the queue that has it now; "" where it is dropped, or could not be moved
// and is handed back.
func (w *Worker) keep(j *job, queue, reason string, err error) (kept string) {
	if queue == "" {
		w.settleBest(j, "ack", j.delivery.Ack)
		return ""
	}
	letter := transport.DeadLetter{Queue: queue, Reason: reason, Detail: err.Error()}
	if w.settleDelivery(j, "dead-letter", func(ctx context.Context) error { return j.delivery.DeadLetter(ctx, letter) }) != nil {
		return ""
	}
	return queue
}

func reasonOf(err error) string {
	var (
		envelope    *protocol.EnvelopeError
		disallowed  *protocol.ContentDisallowedError
		undecodable *protocol.DecodeError
		unsupported *unsupportedError
	)
	switch {
	case errors.As(err, &envelope):
		return reasonEnvelope
	case errors.Is(err, protocol.ErrUnknownMessage):
		return reasonUnknown
	case errors.As(err, &disallowed):
		return reasonContent
	case errors.As(err, &undecodable):
		return reasonUndecodable
	case errors.As(err, &unsupported):
		return reasonUnsupported
	default:
		return reasonInvalid
	}
}

// requeue hands a message back with a delay that grows with the attempts.
func (w *Worker) requeue(j *job) {
	delay := requeueMax
	if doublings := j.delivery.Attempt() - 1; doublings < 6 { // 2^6 s is over the maximum
		delay = requeueBase << doublings
	}
	w.settleBest(j, "requeue", func(ctx context.Context) error { return j.delivery.Requeue(ctx, delay) })
}
