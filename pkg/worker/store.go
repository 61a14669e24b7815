package worker

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

const (
	// storePatience is how long a result is tried to be stored. A late task whose
	// result can't be stored keeps its message.
	storePatience = 30 * time.Second
	// passingPatience bounds the one try for a state that is for people who watch:
	// it must not hold a task up for long.
	passingPatience = 2 * time.Second
)

// storeOutcome stores the state of a finished task, where it is wanted.
func (w *Worker) storeOutcome(j *job, store acks.Store) error {
	wanted := j.storeErrors
	if store == acks.StoreSuccess {
		wanted = !j.ignoreResult
	}
	if store == acks.StoreNothing || !wanted || w.backend == nil || j.stored != nil {
		return nil
	}
	return w.storeMeta(w.outcomeMeta(j, store), !j.mayBeStored)
}

// outcomeMeta is the record of a finished task.
func (w *Worker) outcomeMeta(j *job, store acks.Store) protocol.Meta {
	switch store {
	case acks.StoreSuccess:
		m := w.metaOf(j, protocol.StateSuccess)
		m.Result, m.Children = j.value, j.children
		return m
	case acks.StoreRetry:
		return w.retryMeta(j)
	case acks.StoreRevoked:
		m := w.metaOf(j, protocol.StateRevoked)
		m.Result = protocol.Exception{Type: "TaskRevokedError", Module: "celery.exceptions", Args: []any{j.outcome.String()}}
		return m
	default:
		m := w.metaOf(j, protocol.StateFailure)
		m.Result = exceptionOf(j)
		m.Traceback = tasks.Traceback(j.err)
		return m
	}
}

// retryMeta: the cause of the retry, or for a task that a cold shutdown ended,
// what Celery says of it.
func (w *Worker) retryMeta(j *job) protocol.Meta {
	m := w.metaOf(j, protocol.StateRetry)
	if j.outcome == acks.Cancelled {
		m.Result = protocol.Exception{Type: "Retry", Module: "celery.exceptions", Args: []any{"cancelled by Celery"}}
		return m
	}
	m.Traceback = tasks.Traceback(j.err)
	if cause := j.retry.Cause; cause != nil {
		m.Result = tasks.ExceptionOf(cause)
	}
	return m
}

func meta(id string, state protocol.State) protocol.Meta {
	return protocol.Meta{TaskID: id, Status: state}
}

// metaOf is the record of a job without its result.
func (w *Worker) metaOf(j *job, state protocol.State) protocol.Meta {
	m := meta(j.message.ID, state)
	m.GroupID, m.ParentID = j.message.GroupID, j.message.ParentID
	if w.options.ResultExtended {
		m.Extra = map[string]any{
			"name": j.message.Task, "args": j.message.Args, "kwargs": j.message.Kwargs, "worker": w.options.Hostname,
			"retries": int64(j.message.Retries), "queue": j.delivery.Queue(),
		}
		if len(j.message.StampedHeaders) > 0 {
			m.Extra["stamped_headers"] = j.message.StampedHeaders
			for name, stamp := range j.message.Stamps {
				m.Extra[name] = stamp
			}
		}
	}
	return m
}

// storeOnce writes a passing state, STARTED or RETRY, if the backend takes it at
// once.
func (w *Worker) storeOnce(m protocol.Meta, first bool) {
	if w.backend == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.workContext), passingPatience)
	defer cancel()
	if err := w.backend.Store(ctx, m, results.StoreOptions{Expires: w.options.ResultExpires, First: first}); err != nil {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err, GivenUp: true})
	}
}

// storeMeta writes a record, or as much of it as can be stored: who waits for the
// task waits for its state. first says that no earlier state can exist.
func (w *Worker) storeMeta(m protocol.Meta, first bool) error {
	err := w.storeWhole(m, first)
	if unstorable(err) && shorten(&m) {
		err = w.storeWhole(m, first)
	}
	return err
}

// storeWhole writes a record and tries again for a while.
func (w *Worker) storeWhole(m protocol.Meta, first bool) error {
	if m.Status.Ready() {
		m.DateDone = time.Now().In(w.options.Timezone)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.workContext), storePatience)
	defer cancel()
	try := func() (struct{}, error) {
		err := w.backend.Store(ctx, m, results.StoreOptions{Expires: w.options.ResultExpires, First: first})
		first = false // an unconfirmed try may have stored it
		if permanent(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, try, backoff.WithNotify(func(err error, _ time.Duration) {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err})
	}), backoff.WithMaxElapsedTime(storePatience))
	if err != nil {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err, GivenUp: true})
	}
	return err
}
