package worker

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// dialect is the protocol that the messages of a queue are written in, and what goes
// with it: how often they may come, where they are put aside, how an end is told to
// whoever waits. The steps ask it and are the same for all. Celery's, Ray Serve's and
// the one of synchronous inference are in the files of their names.
type dialect interface {
	// decode reads the body of the job's delivery: the message, its identity, and what
	// else settling it needs. A task that is not registered is a *protocol.UnknownTaskError.
	decode(j *job) error
	// policy says when the message of a task is settled.
	policy(task tasks.Options) acks.Policy
	// ignoresResult tells whether nobody wants the result, which chords and callers of
	// Ray Serve always do.
	ignoresResult(m *protocol.Message, task tasks.Options) bool
	// endsIgnored tells whether a task that is ignored (tasks.Ignore) is stored as a
	// SUCCESS without a result, because somebody would wait for ever.
	endsIgnored(m *protocol.Message) bool
	// maxRetries is the limit that a handler is told of.
	maxRetries(task tasks.Options) int
	// retriesByCopy tells whether a retry is another message. Else the same one is
	// delivered again, and a retry is a failure that may know when.
	retriesByCopy() bool

	// limit is how often a message may be delivered, 0 for as often as it takes, and
	// the queue for those that were, and for rejected ones; "" drops them.
	limit() (attempts int, queue string)
	// unprocessableQueue is where messages of a queue go that are no tasks of this
	// worker; "" drops them.
	unprocessableQueue(queue string) string

	// backend is where ends are stored and how long they stay; nil stores none.
	backend() (backend results.Backend, expires time.Duration)
	// record adds to a job's record what the dialect keeps in it.
	record(j *job, m *protocol.Meta)
	// unregistered is the failure of a task that nobody here knows.
	unregistered(j *job, err *protocol.UnknownTaskError) protocol.Meta
	// callersCancel tells whether a caller ends a task by storing REVOKED for it: then
	// the state is looked at before the handler starts and while it runs.
	callersCancel() bool
	// progress tells how far a handler has come.
	progress(ctx context.Context, j *job, percent float64, detail string) error
}

// dialectOf is the protocol of a queue.
func (w *Worker) dialectOf(queue string) dialect {
	if settings, speaks := w.options.RayServe[queue]; speaks {
		return rayServe{worker: w, queue: settings}
	}
	return celery{w}
}
