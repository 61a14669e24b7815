package worker

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/internal/pause"
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

// stores tells whether ends of a job's queue are stored.
func (*Worker) stores(j *job) bool {
	backend, _ := j.dialect.backend()
	return backend != nil
}

// storeOutcome stores the state of a finished task, where it is wanted.
func (w *Worker) storeOutcome(j *job, store acks.Store) error {
	wanted := j.storeErrors
	if store == acks.StoreSuccess {
		wanted = !j.ignoreResult
	}
	if store == acks.StoreNothing || !wanted || !w.stores(j) || j.stored != nil {
		return nil
	}
	return w.storeMeta(j, w.outcomeMeta(j, store), !j.mayBeStored)
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
	j.dialect.record(j, &m)
	return m
}

// storeOnce writes a passing state, STARTED or RETRY, if the backend takes it at
// once.
func (w *Worker) storeOnce(j *job, m protocol.Meta, first bool) {
	backend, expires := j.dialect.backend()
	if backend == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.settleContext, passingPatience)
	defer cancel()
	if err := backend.Store(ctx, m, results.StoreOptions{Expires: expires, First: first}); err != nil {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err, GivenUp: true})
	}
}

// storeMeta writes a record, or as much of it as can be stored: who waits for the
// task waits for its state. first says that no earlier state can exist.
func (w *Worker) storeMeta(j *job, m protocol.Meta, first bool) error {
	err := w.storeWhole(j, m, first)
	if unstorable(err) && shorten(&m) {
		err = w.storeWhole(j, m, first)
	}
	return err
}

// storeWhole writes a record and tries again for a while.
func (w *Worker) storeWhole(j *job, m protocol.Meta, first bool) error {
	backend, expires := j.dialect.backend()
	if m.Status.Ready() {
		m.DateDone = time.Now().In(w.options.Timezone)
	}
	ctx, cancel := context.WithTimeout(w.settleContext, storePatience)
	defer cancel()
	err := backend.Store(ctx, m, results.StoreOptions{Expires: expires, First: first})
	if err != nil && !permanent(err) {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err})
		// An unconfirmed try may have stored it, so this is not the first any more.
		err = w.storeAgain(ctx, backend, m, results.StoreOptions{Expires: expires}, err)
	}
	if err != nil {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err, GivenUp: true})
	}
	return err
}

// storeAgain tries until ctx ends, first after a wait; failed is the error so far.
func (w *Worker) storeAgain(
	ctx context.Context, backend results.Backend, m protocol.Meta, options results.StoreOptions, failed error,
) error {
	waits := backoff.NewExponentialBackOff()
	if pause.For(ctx, waits.NextBackOff()) != nil {
		return failed
	}
	try := func() (struct{}, error) {
		err := backend.Store(ctx, m, options)
		if permanent(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, try, backoff.WithBackOff(waits), backoff.WithNotify(func(err error, _ time.Duration) {
		w.observe(StoreFailed{ID: m.TaskID, State: m.Status, Err: err})
	}), backoff.WithMaxElapsedTime(storePatience))
	return err
}
