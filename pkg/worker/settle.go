package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// settleTimeout bounds one settlement. It runs while the worker stops, so no
// context of the engine ends it.
const settleTimeout = 30 * time.Second

// settle does what is due after a task, in the order that loses nothing: what
// follows is published, the result is stored, the observers are told, and only
// then the message is settled.
func (w *Worker) settle(j *job) {
	if j.outcome == acks.Retry {
		w.settleRetry(j)
	}
	w.continueSuccess(j)
	decision := w.continueFailure(j, w.store(j))
	defer w.finish(j, decision) // also where a hook ends its goroutine
	for _, event := range decision.Events {
		w.tell(j, event)
	}
	if j.outcome == acks.Ignore {
		w.observe(TaskIgnored{Request: j.request, Reason: reasonText(j.err)})
	}
	w.callHooks(j, decision)
}

// finish settles the message of a task whose end is told.
func (w *Worker) finish(j *job, decision acks.Decision) {
	defer func() {
		w.unclaim(j, isFinal(j, decision.Settle))
		w.observe(TaskEnded{Request: j.request})
	}()
	w.settleMessage(j, decision.Settle)
}

// store stores the outcome and decides what that means for the message.
func (w *Worker) store(j *job) acks.Decision {
	decision := w.decide(j)
	if j.outcome == acks.Retry {
		return decision // settleRetry has stored it
	}
	if j.outcome == acks.Ignore && j.dialect.endsIgnored(j.message) {
		decision.Store = acks.StoreSuccess // null
	}
	err := w.storeOutcome(j, decision.Store)
	if j.outcome == acks.Exhausted {
		return decision // stored or not, the message is kept
	}
	if unstorable(err) && decision.Store == acks.StoreSuccess {
		// That is this task's failure, not the connection's: the caller learns of it
		// instead of waiting for ever.
		j.err = fmt.Errorf("the result of %s[%s] can't be stored: %w", j.message.Task, j.message.ID, err)
		j.outcome = acks.Failure
		if !errors.Is(err, transport.ErrTooLarge) {
			j.outcome = acks.EncodeFailure
		}
		decision = w.decide(j)
		err = w.storeOutcome(j, decision.Store)
	}
	if err != nil && j.policy.Late && !hopeless(err) {
		j.outcome = acks.ResultUnstored
		if j.err == nil {
			j.err = fmt.Errorf("worker: the result of %s[%s] could not be stored: %w", j.message.Task, j.message.ID, err)
		}
		decision = w.decide(j)
	}
	return decision
}

// settleMessage applies the settlement.
func (w *Worker) settleMessage(j *job, settlement acks.Settlement) {
	switch settlement {
	case acks.None:
	case acks.Ack:
		w.settleBest(j, "ack", j.delivery.Ack)
	case acks.Discard:
		w.deadLetter(j)
	case acks.Requeue:
		w.requeue(j)
	case acks.Release:
		w.handBack(j)
	case acks.Republish:
		w.republish(j)
	case acks.Nack:
		w.redeliver(j)
	}
}

// requeueBase and requeueMax bound the delay of a requeue, which doubles with
// each attempt, so that a requeue loop costs no CPU.
const (
	requeueBase = time.Second
	requeueMax  = time.Minute
)

func requeueDelay(attempt int) time.Duration {
	if doublings := attempt - 1; doublings < 6 { // 2^6 s is over the maximum
		return requeueBase << doublings
	}
	return requeueMax
}

// requeue hands a message back with a delay that grows with the attempts.
func (w *Worker) requeue(j *job) {
	w.noteError(j)
	delay := requeueDelay(j.delivery.Attempt())
	w.settleBest(j, "requeue", func(ctx context.Context) error { return j.delivery.Requeue(ctx, delay) })
}

// redeliverAtOnce is how many deliveries of a message without a limit follow each other
// at once. From then on they are requeued: a message that always fails would keep the
// worker and the broker busy with itself.
const redeliverAtOnce = 10

// redeliver hands back the message of a task that failed: after the wait that the
// handler asked for, or at once.
func (w *Worker) redeliver(j *job) {
	wait := time.Duration(0)
	if j.retry != nil {
		wait = time.Until(retryTime(j.retry, time.Now()))
	}
	limit, _ := w.limit(j)
	switch {
	case limit == 0 && j.delivery.Attempt() > redeliverAtOnce && wait < requeueBase:
		w.requeue(j)
	case wait > 0:
		w.noteError(j)
		w.settleBest(j, "requeue", func(ctx context.Context) error { return j.delivery.Requeue(ctx, wait) })
	default:
		w.settleBest(j, "nack", j.delivery.Nack)
	}
}

// republish is for a message that is acked already but wanted again: nobody delivers
// it again if that fails.
func (w *Worker) republish(j *job) {
	w.noteError(j)
	ctx, cancel := context.WithTimeout(w.settleContext, settleTimeout)
	defer cancel()
	if err := j.delivery.Requeue(ctx, requeueDelay(j.delivery.Attempt())); err != nil {
		w.observe(PublishFailed{ID: j.request.ID, Queue: j.delivery.Queue(), Err: err, GivenUp: true})
	}
}

// settleBest is settleDelivery where nothing follows from a failure: it is
// reported, and the broker delivers the message again.
func (w *Worker) settleBest(j *job, operation string, settle func(context.Context) error) {
	_ = w.settleDelivery(j, operation, settle)
}

// settleDelivery runs one settlement and reports a failure.
func (w *Worker) settleDelivery(j *job, operation string, settle func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.settleContext, settleTimeout)
	defer cancel()
	err := settle(ctx)
	if err == nil {
		return nil
	}
	id := ""
	if j.request != nil {
		id = j.request.ID
	}
	acked := w.autoAcks(j.delivery.Queue()) || !j.policy.Late && !j.started.IsZero()
	w.observe(SettleFailed{Queue: j.delivery.Queue(), ID: id, Operation: operation, Err: err, Acked: acked})
	if operation != "ack" && !errors.Is(err, transport.ErrLost) {
		w.giveUp(j)
	}
	return err
}

// giveUp hands back what could not be settled in another way, after a while: what
// failed now would fail at once again. Where the broker takes no copies that while
// is spent here, in the slot. Where the message was settled or lost, this is refused,
// and right so.
func (w *Worker) giveUp(j *job) {
	bounded := func(settle func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(w.settleContext, settleTimeout)
		defer cancel()
		return settle(ctx)
	}
	err := bounded(func(ctx context.Context) error { return j.delivery.Requeue(ctx, requeueMax) })
	if err == nil || errors.Is(err, transport.ErrSettled) || errors.Is(err, transport.ErrLost) {
		return
	}
	_ = pause.For(w.fetchContext, requeueDelay(j.delivery.Attempt())) // as long as it may
	_ = bounded(j.delivery.Nack)
}

// tell reports one of Celery's events.
func (w *Worker) tell(j *job, event acks.Event) {
	switch event {
	case acks.Succeeded:
		w.observe(TaskSucceeded{Request: j.request, Result: j.value, Runtime: j.runtime})
	case acks.Failed:
		w.observe(TaskFailed{
			Request: j.request, Err: j.err, Exception: exceptionOf(j), Traceback: tasks.Traceback(j.err),
			Runtime: j.runtime, Expected: j.task.Options().Expected(j.err),
		})
	case acks.Retried:
		w.tellRetried(j)
	case acks.RevokedEvent:
		w.observe(TaskRevoked{Request: j.request, Expired: j.outcome == acks.Expired})
	case acks.CancelledEvent:
		w.observe(TaskCancelled{Request: j.request, HandedBack: j.policy.Late})
	case acks.RejectedForGood, acks.RejectedRequeue:
		w.observe(TaskRejected{
			Request: j.request, Requeue: event == acks.RejectedRequeue, Reason: reasonText(j.err),
		})
	}
}

// reasonText is why a task was rejected or ignored, in the handler's words.
func reasonText(err error) string {
	ended, _ := tasks.OutcomeOf(err)
	switch e := ended.(type) {
	case *tasks.RejectError:
		return e.Reason
	case *tasks.IgnoreError:
		return e.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// exceptionOf is the exception that is stored and shown for the job's failure.
func exceptionOf(j *job) protocol.Exception {
	if j.outcome == acks.EncodeFailure {
		return protocol.Exception{Type: "EncodeError", Module: "kombu.exceptions", Args: []any{j.err.Error()}}
	}
	return tasks.ExceptionOf(j.err)
}
