package worker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// run calls the handler and says how it ended. It is false where the message is
// known not to be acked early: then the broker delivers it again, and running it
// here too could charge an order twice. Where the ack may have been applied nobody
// else gets the message, so the task runs, as in Celery: a duplicate is possible
// then, a loss is not.
func (w *Worker) run(j *job) bool {
	if w.workContext.Err() != nil { // the handler would be cut short before it began
		w.handBack(j)
		return false
	}
	if !j.policy.Late {
		if err := w.settleDelivery(j, "ack", j.delivery.Ack); err != nil && !errors.Is(err, transport.ErrUnconfirmed) {
			return false
		}
		w.uncounted.Add(1)
		defer w.uncounted.Add(-1)
	}
	w.observe(TaskStarted{Request: j.request})
	value := w.handle(j)
	j.runtime = time.Since(j.started)
	w.conclude(j, value)
	return true
}

// handle calls the handler, and before it the prerun hooks. One that ends its
// goroutine doesn't come back here: it counts as a lost worker, and the job is
// settled on the way out.
func (w *Worker) handle(j *job) (value any) {
	returned := false
	j.started = time.Now()
	defer func() {
		if !returned {
			j.runtime = time.Since(j.started)
			j.err, j.outcome = errGoexit, acks.WorkerLost
			w.settle(j)
		}
	}()
	w.callPrerunHooks(j)
	if w.trackStarted(j) {
		w.storeStarted(j)
	}
	j.started = time.Now()
	if j.err == nil { // else the arguments were none
		value = w.call(j)
	}
	returned = true
	return value
}

func (w *Worker) call(j *job) (value any) {
	ctx, cancel := context.WithCancelCause(tasks.WithRequest(w.workContext, j.request))
	defer cancel(nil)
	if !j.until.IsZero() {
		bounded, end := context.WithDeadline(ctx, j.until)
		defer end()
		ctx = bounded
	}
	defer w.watch(ctx, j, cancel)()
	ctx = tasks.WithProgress(ctx, func(ctx context.Context, percent float64, detail string) error {
		return j.dialect.progress(ctx, j, percent, detail)
	})
	value, j.err = w.wrapped(j.task.Run)(ctx, j.arguments)
	j.revoked = errors.Is(context.Cause(ctx), tasks.ErrTaskCancelled)
	j.mayBeStored = j.mayBeStored || j.progressed.Load()
	return value
}

// conclude turns what the handler returned into an outcome.
func (w *Worker) conclude(j *job, value any) {
	if j.err == nil {
		w.concludeSuccess(j, value)
		return
	}
	j.outcome = acks.Failure
	if w.workContext.Err() != nil && (j.policy.Late || errors.Is(j.err, context.Canceled) || errors.Is(j.err, ErrCancelled)) {
		// A driver's error for a cancelled context has many forms. A late task that
		// ends with any is handed back: it was cut short.
		j.outcome = acks.Cancelled
	} else if j.revoked {
		j.outcome = acks.Terminated
		return
	}
	ended, _ := tasks.OutcomeOf(j.err)
	switch e := ended.(type) {
	case *tasks.RetryError:
		if e.Automatic && j.outcome == acks.Cancelled {
			return // the handler was cut short: that is no failure to be retried
		}
		j.outcome, j.retry = acks.Retry, w.boundRetry(j, e)
		if !j.dialect.retriesByCopy() {
			j.outcome, j.err = acks.Failure, cmp.Or(e.Cause, j.err)
		}
	case *tasks.IgnoreError:
		j.outcome = acks.Ignore
	case *tasks.RejectError:
		j.outcome = acks.Reject
		if e.Requeue {
			j.outcome = acks.RejectRequeue
		}
	}
}

// concludeSuccess: a result that can't be serialized is a failure, as in Celery.
func (w *Worker) concludeSuccess(j *job, value any) {
	wire, err := protocol.ToValue(value)
	if err != nil {
		j.err, j.outcome = err, acks.EncodeFailure
		return
	}
	j.value, j.outcome = wire, acks.Success
}

// storeStarted tells people who watch that the task runs.
func (w *Worker) storeStarted(j *job) {
	m := w.metaOf(j, protocol.StateStarted)
	m.Result = map[string]any{"pid": int64(os.Getpid()), "hostname": w.options.Hostname}
	w.storeOnce(j, m, !j.mayBeStored)
	j.mayBeStored = true
}
