package worker

import (
	"errors"

	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
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
	reasonMalformed    = "malformed"
)

// refuse keeps a message that can't become a task: Celery drops it or dies.
func (w *Worker) refuse(j *job, err error) {
	var unknown *protocol.UnknownTaskError
	var unsupported *unsupportedError
	switch {
	case errors.As(err, &unknown):
		w.refuseUnknown(j, unknown)
	case errors.As(err, &unsupported):
		w.storeUnsupported(j, unsupported)
		w.unprocessable(j, err)
	default:
		w.unprocessable(j, err)
	}
}

// refuseUnknown: FAILURE NotRegistered as Celery, and the message is kept, or
// handed to the other workers of the queue a number of times first.
func (w *Worker) refuseUnknown(j *job, err *protocol.UnknownTaskError) {
	queue := j.delivery.Queue()
	event := TaskUnknown{Task: err.Task, ID: err.ID, Queue: queue, Fate: HandedBack}
	if w.leavesToOthers(j) {
		w.observe(event)
		w.requeue(j)
		return
	}
	reached := w.storeRefusal(j, j.dialect.unregistered(j, err))
	if reached && j.envelope != nil && err.Task == canvas.ChordUnlock {
		w.failChord(j)
	}
	event.Fate, event.KeptIn = w.putAside(j, reasonUnregistered, err)
	w.observe(event)
	w.callUnknownHooks(err.Task, err.ID, queue)
}

// leavesToOthers tells whether a task that is unknown here is left to the other workers of
// its queue: as long as one of them may still try it. A query goes to one worker only.
func (w *Worker) leavesToOthers(j *job) bool {
	if _, asked := j.delivery.(*inquiry); asked || w.options.UnknownTask != UnknownRequeue {
		return false
	}
	limit, _ := w.limit(j)
	attempt := j.delivery.Attempt()
	return attempt < w.options.UnknownAttempts && (limit == 0 || attempt < limit)
}

// storeRefusal stores the failure of a message that is refused, if it has an id
// and the backend takes it; the message is kept in any case. It is false where the
// backend can't be reached, which was reported to the observers.
func (w *Worker) storeRefusal(j *job, m protocol.Meta) (reached bool) {
	if m.TaskID == "" || !w.stores(j) {
		return true
	}
	// Another worker may have stored a state: this one may be a retry.
	err := w.storeMeta(j, m, false)
	return err == nil || hopeless(err)
}

// putAside keeps a message in the unprocessable queue, and says which that is where it
// is there now.
func (w *Worker) putAside(j *job, reason string, err error) (fate Fate, keptIn string) {
	keeper := j.dialect.unprocessableQueue(j.delivery.Queue())
	if fate = w.keep(j, keeper, reason, err); fate != Kept {
		keeper = ""
	}
	return fate, keeper
}

func (w *Worker) unprocessable(j *job, err error) {
	reason := reasonOf(err)
	event := MessageUnprocessable{Queue: j.delivery.Queue(), Reason: reason, Err: err}
	event.Fate, event.KeptIn = w.putAside(j, reason, err)
	w.observe(event)
	w.callUnprocessableHooks(j.delivery.Queue(), reason, err)
}

func reasonOf(err error) string {
	var (
		envelope    *protocol.EnvelopeError
		disallowed  *protocol.ContentDisallowedError
		undecodable *protocol.DecodeError
		unsupported *unsupportedError
		malformed   *rayserve.MalformedError
	)
	switch {
	case errors.As(err, &malformed):
		return reasonMalformed
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
