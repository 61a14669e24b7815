package worker

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// lookPatience bounds the look at the state of an earlier run.
const lookPatience = 2 * time.Second

type (
	// TaskDuplicate means: the message was delivered again and its task is not run.
	// Stored tells that an earlier run has stored its SUCCESS; TaskSucceeded follows
	// then. Else this worker has run it itself.
	TaskDuplicate struct {
		Request *tasks.Request
		Stored  bool
	}
	// LookFailed means: the state of an earlier run could not be read; the task runs.
	LookFailed struct {
		Request *tasks.Request
		Err     error
	}
)

func (TaskDuplicate) event() {}
func (LookFailed) event()    {}

// fresh tells whether the job is the only one of its message. A duplicate of one
// that has finished is acked; a duplicate of one that runs waits for its end, in
// memory and without a slot.
func (w *Worker) fresh(j *job, ask func(identity) (bool, <-chan struct{})) bool {
	finished, running := ask(j.identity)
	switch {
	case finished:
		w.dropDuplicate(j)
		return false
	case running != nil:
		w.hold(j, running)
		return false
	}
	return true
}

// claim makes the job the one that runs for its message.
func (w *Worker) claim(j *job) bool {
	j.claimed = w.fresh(j, w.window.begin)
	return j.claimed
}

// unclaim ends the claim, if the job has one. Duplicates that wait are dropped where
// the message is finished; else the first of them runs.
func (w *Worker) unclaim(j *job, finished bool) {
	if j.claimed {
		j.claimed = false
		w.window.end(j.identity, finished)
	}
}

// isFinal tells whether the message of a settled job must not run again. One that is
// handed back must; so must one that was moved to the dead letters, when somebody
// sends it from there.
func isFinal(j *job, settlement acks.Settlement) bool {
	return j.outcome != acks.Cancelled && (settlement == acks.Ack || settlement == acks.None)
}

func (w *Worker) dropDuplicate(j *job) {
	w.observe(TaskDuplicate{Request: j.request})
	w.settleBest(j, "ack", j.delivery.Ack)
}

// hold waits for the run that has the claim, also while the worker stops: that run
// ends before the worker does. Where too many wait already the duplicate goes back
// to the broker for a while.
func (w *Worker) hold(j *job, running <-chan struct{}) {
	held := w.held.start(func() {
		<-running
		if finished, _ := w.window.look(j.identity); finished {
			w.dropDuplicate(j)
			return
		}
		w.due(j, true)
	})
	if !held {
		w.requeue(j)
	}
}

// endedBefore tells whether the state that is stored for the task ends it before it
// starts: it ran to its end when the message was delivered before
// (worker_deduplicate_successful_tasks), or its caller has cancelled it. The job then
// has the outcome of that and is settled like any other: what should follow a success
// follows, unless the stored state says that it did (docs/protocol.md §2.7).
func (w *Worker) endedBefore(j *job) bool {
	if !w.stores(j) || j.message.ID == "" || !w.looksBack(j) {
		return false
	}
	ctx, cancel := context.WithTimeout(w.settleContext, lookPatience)
	defer cancel()
	stored, err := stateBefore(ctx, j)
	if err != nil {
		if !errors.Is(err, results.ErrNotFound) {
			w.observe(LookFailed{Request: j.request, Err: err})
		}
		return false
	}
	if stored.Status == protocol.StateRevoked && j.dialect.callersCancel() {
		j.err, j.outcome = nil, acks.Revoked
		return true
	}
	if stored.Status == protocol.StateFailure {
		j.failedBefore = &stored
	}
	if stored.Status != protocol.StateSuccess {
		return false
	}
	j.stored, j.value, j.err, j.outcome = &stored, stored.Result, nil, acks.Success
	w.observe(TaskDuplicate{Request: j.request, Stored: true})
	return true
}

// stateBefore is the state that a task has before its handler starts. For a message that
// was never delivered there is nothing but what its caller has stored, and a cancel that
// is being stored at this moment is seen while the handler runs. Whoever had it before
// may have died while a state was stored, so then it is the newest that counts.
func stateBefore(ctx context.Context, j *job) (protocol.Meta, error) {
	if j.dialect.callersCancel() && !j.request.Redelivered {
		return glance(ctx, j)
	}
	backend, _ := j.dialect.backend()
	return backend.Fetch(ctx, j.message.ID)
}

// looksBack tells whether the stored state is worth a look before the handler starts.
func (w *Worker) looksBack(j *job) bool {
	if j.dialect.callersCancel() {
		return true
	}
	if !w.options.DeduplicateSuccessful || !j.policy.Late || j.ignoreResult {
		return false
	}
	// A broker that doesn't count crashes doesn't mark what it delivers after one.
	return j.request.Redelivered || !w.transport.Capabilities().CountsAttempts
}
