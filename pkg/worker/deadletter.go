package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// The reasons under which messages are kept in the dead-letter queue.
const (
	reasonRejected    = "rejected"
	reasonMaxAttempts = "max-attempts"
	reasonWorkerLost  = "worker-lost"
)

// deadLetter moves a message to the dead-letter queue, or drops it where there is
// none. It is told once, when the copy is confirmed.
func (w *Worker) deadLetter(j *job) {
	reason, queue := deadReason(j), w.deadLetterQueue(j)
	if queue == "" && j.outcome == acks.Reject && !j.policy.Late {
		return // acked before it ran, and nobody wants it
	}
	if w.keep(j, queue, reason, j.err) != Kept {
		return
	}
	w.observe(DeadLettered{Request: j.request, ID: j.request.ID, Task: j.request.Task, Queue: queue, Reason: reason, Err: j.err})
	w.reportHooks(j.request, w.registry.Hooks().DeadLetter(w.hookContext(j.request), j.request.ID, j.err))
}

// deadLetterQueue is the one that goes with the limit a message has reached; for
// other reasons the worker's, or the one that the producer named.
func (w *Worker) deadLetterQueue(j *job) string {
	if j.outcome == acks.Exhausted {
		_, queue := w.limit(j)
		return queue
	}
	_, queue := j.dialect.limit()
	if queue == "" {
		_, queue = j.delivery.Limit()
	}
	return queue
}

func deadReason(j *job) string {
	var exhausted *exhaustedError
	switch {
	case errors.As(j.err, &exhausted) && exhausted.lost, j.outcome == acks.WorkerLost:
		return reasonWorkerLost
	case exhausted != nil:
		return reasonMaxAttempts
	default:
		return reasonRejected
	}
}

// keep moves the raw message to a queue, or drops it where there is none.
func (w *Worker) keep(j *job, queue, reason string, err error) Fate {
	if queue == "" {
		return w.drop(j)
	}
	letter := w.letter(j, err)
	letter.Queue, letter.Reason = queue, reason
	err = w.settleDelivery(j, "dead-letter", func(ctx context.Context) error { return j.delivery.DeadLetter(ctx, letter) })
	if err != nil && !errors.Is(err, transport.ErrCopied) {
		return HandedBack
	}
	return Kept
}

// drop acks a message that nobody keeps. It comes again where that certainly failed.
func (w *Worker) drop(j *job) Fate {
	err := w.settleDelivery(j, "ack", j.delivery.Ack)
	if _, asked := j.delivery.(*inquiry); asked {
		return Answered
	}
	if err != nil && !errors.Is(err, transport.ErrUnconfirmed) {
		return HandedBack
	}
	return Dropped
}

// letter is what is kept beside a message that is put aside because of err.
func (w *Worker) letter(j *job, err error) transport.DeadLetter {
	letter := transport.DeadLetter{
		Detail: err.Error(), Traceback: tasks.Traceback(err), Worker: w.options.Hostname, Time: time.Now(),
	}
	var unknown *protocol.UnknownTaskError
	switch {
	case j.message != nil:
		letter.Task, letter.ID = j.message.Task, j.message.ID
	case errors.As(err, &unknown):
		letter.Task, letter.ID = unknown.Task, unknown.ID
	}
	return letter
}
