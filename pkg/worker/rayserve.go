package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// RayServeQueue is a queue of Ray Serve's adapter. Names are the adapter's.
type RayServeQueue struct {
	// MaxRetries is how often a message is delivered at most, the first time included,
	// where FailedTaskQueue is set, too. What the message's producer asks for holds if
	// it is less. Without both a task that fails comes again for ever.
	MaxRetries int
	// FailedTaskQueue is where messages go that were delivered as often as they may be,
	// or were rejected.
	FailedTaskQueue string
	// UnprocessableTaskQueue is where messages go that are no tasks of this worker; ""
	// drops them with an error line, as the adapter does.
	UnprocessableTaskQueue string
	// Backend is where the callers look for results (results/rayserve); nil stores none.
	// It belongs to whoever made it.
	Backend results.Backend
}

// validateRayServe checks the queues of Ray Serve's protocol.
func (o *Options) validateRayServe() error {
	for name, queue := range o.RayServe {
		switch {
		case !slices.Contains(o.Queues, name):
			return fmt.Errorf("%w: queue %q of Ray Serve's protocol is not consumed", ErrOptions, name)
		case queue.MaxRetries < 0:
			return fmt.Errorf("%w: queue %q: max_retries is %d, at least 0 is needed", ErrOptions, name, queue.MaxRetries)
		case slices.Contains(o.Queues, queue.FailedTaskQueue) || slices.Contains(o.Queues, queue.UnprocessableTaskQueue):
			return fmt.Errorf("%w: queue %q: its failed and unprocessable messages would come back for ever from a queue that is consumed",
				ErrOptions, name)
		}
	}
	return nil
}

// tellNoRetryCeiling names the queues whose failing tasks come again for ever.
func (w *Worker) tellNoRetryCeiling() {
	for _, queue := range w.options.Queues {
		if settings, speaks := w.options.RayServe[queue]; speaks && settings.ceiling() == 0 {
			w.observe(NoRetryCeiling{Queue: queue})
		}
	}
}

// ceiling is how often a message may be delivered; 0 = as often as it takes.
func (q RayServeQueue) ceiling() int {
	if q.FailedTaskQueue == "" {
		return 0
	}
	return q.MaxRetries
}

// rayServe is the protocol of Ray Serve's adapter (docs/protocol.md §24).
type rayServe struct {
	worker *Worker
	queue  RayServeQueue
}

// decode: the delivery is counted as the task's earlier tries, because its retries are
// the same message.
func (r rayServe) decode(j *job) error {
	task, err := rayserve.DecodeTask(j.delivery.Body(), r.worker.options.Limits)
	if err != nil {
		r.storeMalformed(j, err)
		return err
	}
	j.created = task.CreatedAt
	if !r.worker.knows(task.Name) {
		return &protocol.UnknownTaskError{Task: task.Name, ID: task.ID}
	}
	j.message = &protocol.Message{
		ID: task.ID, Task: task.Name, Args: task.Args, Kwargs: task.Kwargs,
		Queue: j.delivery.Queue(), Retries: j.delivery.Attempt() - 1,
	}
	j.identity = r.identity(j.message, j.delivery.Body())
	return nil
}

// identity: a producer makes a new id, and notes the time, for each sending. What is
// delivered again after a failure is the same message, and hasn't finished.
func (rayServe) identity(m *protocol.Message, body []byte) identity {
	if m.ID == "" {
		return ""
	}
	return hashOf([]string{m.Queue, m.Task, m.ID}, 0, body)
}

// storeMalformed tells the caller of a message that has an id and is no task all the
// same.
func (r rayServe) storeMalformed(j *job, err error) {
	var malformed *rayserve.MalformedError
	if !errors.As(err, &malformed) {
		return
	}
	m := meta(malformed.ID, protocol.StateFailure)
	m.Result = protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{malformed.Error()}}
	r.worker.storeRefusal(j, m)
}

// policy: a message is acked when its task has ended, and comes again when that failed.
func (rayServe) policy(tasks.Options) acks.Policy {
	return acks.Policy{Late: true, OnFailure: true, OnTimeout: true, RejectOnWorkerLost: true, Redeliver: true}
}

// ignoresResult: the callers know no way to say so, and wait.
func (rayServe) ignoresResult(*protocol.Message, tasks.Options) bool { return false }

func (rayServe) endsIgnored(*protocol.Message) bool { return true }

func (r rayServe) maxRetries(tasks.Options) int {
	if ceiling := r.queue.ceiling(); ceiling > 0 {
		return ceiling - 1
	}
	return tasks.RetryLimitless
}

func (rayServe) retriesByCopy() bool { return false }

func (r rayServe) limit() (attempts int, queue string) {
	return r.queue.ceiling(), r.queue.FailedTaskQueue
}

func (r rayServe) unprocessableQueue(string) string { return r.queue.UnprocessableTaskQueue }

// backend: how long its results stay is its own.
func (r rayServe) backend() (results.Backend, time.Duration) { return r.queue.Backend, 0 }

func (rayServe) record(j *job, m *protocol.Meta) {
	if j.created != "" {
		m.Extra = map[string]any{rayserve.ExtraCreatedAt: j.created}
	}
}

func (r rayServe) unregistered(j *job, err *protocol.UnknownTaskError) protocol.Meta {
	m := meta(err.ID, protocol.StateFailure)
	r.record(j, &m)
	m.Result = protocol.Exception{
		Type: "NotRegistered", Args: []any{fmt.Sprintf("no task %q is registered with the worker", shortText(err.Task))},
	}
	return m
}

func (rayServe) callersCancel() bool { return true }

// progress is an event that nobody keeps.
func (r rayServe) progress(ctx context.Context, j *job, percent float64, detail string) error {
	body, tags, err := rayserve.EncodeProgress(rayserve.Progress{TaskID: j.message.ID, Pct: percent, Detail: detail})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, passingPatience)
	defer cancel()
	return r.worker.transport.Broadcast(ctx, j.delivery.Queue()+rayserve.ProgressSuffix, body, tags)
}
