package worker

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// stateProgress is the custom state under which Celery's documentation has tasks
// tell how far they are.
const stateProgress protocol.State = "PROGRESS"

// celery is Celery's protocol with the worker's settings.
type celery struct{ worker *Worker }

func (c celery) decode(j *job) error {
	envelope, message, err := protocol.DecodeTask(j.delivery.Body(), protocol.DecodeOptions{
		Accept: c.worker.accept, Limits: c.worker.options.Limits, Known: c.worker.knows,
	})
	j.envelope = envelope
	if err != nil {
		return err
	}
	j.message, j.identity = message, identityOf(j.delivery.Queue(), envelope, message)
	if err := c.worker.checkContinuation(message); err != nil {
		return err
	}
	j.envelope = nil // it is as large again, and a task may wait for long
	return nil
}

func (c celery) policy(task tasks.Options) acks.Policy {
	return acks.Policy{
		Late:               c.worker.acksLate(task),
		OnFailure:          either(task.AcksOnFailure, c.worker.options.AcksOnFailure),
		OnTimeout:          either(task.AcksOnTimeout, c.worker.options.AcksOnTimeout),
		RejectOnWorkerLost: either(task.RejectOnWorkerLost, c.worker.options.RejectOnWorkerLost),
	}
}

// ignoresResult: the caller's wish wins, then the task's setting, then the worker's.
func (c celery) ignoresResult(m *protocol.Message, task tasks.Options) bool {
	return either(m.IgnoreResult, either(task.IgnoreResult, c.worker.options.IgnoreResult)) && !inChord(m)
}

func (celery) endsIgnored(m *protocol.Message) bool { return inChord(m) }

func (celery) maxRetries(task tasks.Options) int { return task.MaxRetries }

func (celery) retriesByCopy() bool { return true }

func (c celery) limit() (attempts int, queue string) {
	return c.worker.options.MaxAttempts, c.worker.options.DeadLetterQueue
}

func (c celery) unprocessableQueue(queue string) string {
	return c.worker.options.unprocessableQueue(queue)
}

func (c celery) backend() (results.Backend, time.Duration) {
	return c.worker.backend, c.worker.options.ResultExpires
}

// record adds what result_extended asks for.
func (c celery) record(j *job, m *protocol.Meta) {
	if !c.worker.options.ResultExtended {
		return
	}
	m.Extra = map[string]any{
		"name": j.message.Task, "args": j.message.Args, "kwargs": j.message.Kwargs, "worker": c.worker.options.Hostname,
		"retries": int64(j.message.Retries), "queue": j.delivery.Queue(),
	}
	if len(j.message.StampedHeaders) > 0 {
		m.Extra["stamped_headers"] = j.message.StampedHeaders
		for name, stamp := range j.message.Stamps {
			m.Extra[name] = stamp
		}
	}
}

func (celery) unregistered(_ *job, err *protocol.UnknownTaskError) protocol.Meta {
	m := meta(err.ID, protocol.StateFailure)
	m.GroupID, m.ParentID = err.GroupID, err.ParentID
	m.Result = protocol.Exception{Type: "NotRegistered", Module: "celery.exceptions", Args: []any{err.Task}}
	return m
}

func (celery) callersCancel() bool { return false }

// progress stores a custom state, as Celery's update_state does.
func (c celery) progress(ctx context.Context, j *job, percent float64, detail string) error {
	if j.ignoreResult || c.worker.backend == nil {
		return nil
	}
	j.progressed.Store(true)
	m := c.worker.metaOf(j, stateProgress)
	m.Result = map[string]any{"pct": percent, "detail": detail}
	ctx, cancel := context.WithTimeout(ctx, passingPatience)
	defer cancel()
	return c.worker.backend.Store(ctx, m, results.StoreOptions{Expires: c.worker.options.ResultExpires})
}
