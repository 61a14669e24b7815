package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// Synchronous inference of Ray Serve's adapter: a query on the queue's own channel is
// a task that is not queued, and whose result is the answer. It walks the same line: an
// inquiry is its delivery, which nothing keeps, inference its dialect.

// respond answers the queries of the queues that speak Ray Serve's protocol, where the
// broker has queries.
func (w *Worker) respond() error {
	responder, can := w.transport.(transport.Responder)
	if !can {
		return nil
	}
	for _, queue := range w.options.Queues {
		settings, speaks := w.options.RayServe[queue]
		if !speaks {
			continue
		}
		subscription, err := responder.Respond(w.fetchContext, queue, w.options.mostSlots(), w.answerer(queue, settings))
		if err != nil {
			return fmt.Errorf("worker: answer the queries of queue %q: %w", queue, err)
		}
		w.responders = append(w.responders, subscription)
	}
	return nil
}

// closeResponders returns when all that is being answered is answered.
func (w *Worker) closeResponders() error {
	errs := make([]error, 0, len(w.responders))
	for _, subscription := range w.responders {
		errs = append(errs, subscription.Close())
	}
	return errors.Join(errs...)
}

// answerer runs the task of a query in a slot, ahead of what is queued: somebody waits
// for it, and not for long.
func (w *Worker) answerer(queue string, settings RayServeQueue) transport.Answer {
	share := w.slots.share()
	return func(ctx context.Context, body []byte) ([]byte, bool) {
		w.uncounted.Add(1)
		defer w.uncounted.Add(-1)
		if share.reserveFirst(ctx) != nil {
			return nil, false // nobody waits any more
		}
		q := &inquiry{body: body, queue: queue, settled: make(chan struct{})}
		until, _ := ctx.Deadline()
		w.pool.submit(&job{
			delivery: q, until: until, share: share,
			dialect: inference{rayServe: rayServe{worker: w, queue: settings}, inquiry: q},
		})
		return q.wait(ctx, until)
	}
}

// inference is Ray Serve's protocol where a task is a query: it is tried once, and
// nothing of it is kept.
type inference struct {
	rayServe
	inquiry *inquiry
}

func (d inference) decode(j *job) error {
	query, err := rayserve.DecodeQuery(j.delivery.Body(), d.worker.options.Limits)
	if err != nil {
		return errors.Join(err, d.inquiry.answer(rayserve.Response{
			Status: rayserve.StatusFailure, Error: "ValueError: " + err.Error(),
		}))
	}
	id := uuid.NewString() // the adapter makes one up for the caller, too
	if !d.worker.knows(query.Name) {
		return &protocol.UnknownTaskError{Task: query.Name, ID: id}
	}
	j.message = &protocol.Message{ID: id, Task: query.Name, Args: query.Args, Kwargs: query.Kwargs, Queue: j.delivery.Queue()}
	return nil
}

func (inference) policy(tasks.Options) acks.Policy {
	return acks.Policy{Late: true, OnFailure: true, OnTimeout: true}
}

func (inference) maxRetries(tasks.Options) int { return 0 }

func (inference) limit() (attempts int, queue string) { return 0, "" }

func (inference) unprocessableQueue(string) string { return "" }

func (d inference) backend() (results.Backend, time.Duration) { return answers{inquiry: d.inquiry}, 0 }

func (inference) record(*job, *protocol.Meta) {}

func (inference) callersCancel() bool { return false }

// progress has no task id that anybody knows.
func (inference) progress(context.Context, *job, float64, string) error { return nil }

// answers is the result backend of one inquiry: what is stored is the answer.
type answers struct{ inquiry *inquiry }

func (a answers) Store(_ context.Context, m protocol.Meta, _ results.StoreOptions) error {
	if !m.Status.Ready() {
		return nil
	}
	response := rayserve.Response{Status: rayserve.StatusOf(m.Status)}
	switch result := m.Result.(type) {
	case protocol.Exception:
		response.Error = rayserve.ErrorText(result)
	default:
		response.Result = result
	}
	if text, explicit := m.Extra[rayserve.ExtraError].(string); explicit {
		response.Error = text
	}
	return a.inquiry.answer(response)
}

func (answers) Fetch(context.Context, string) (protocol.Meta, error) {
	return protocol.Meta{}, results.ErrNotFound
}
func (answers) Forget(context.Context, string) error { return nil }
func (answers) Start(context.Context) error          { return nil }
func (answers) Stop() error                          { return nil }

// inquiry is a query as a delivery. However it is settled, that is its end.
type inquiry struct {
	body  []byte
	queue string

	once    sync.Once
	settled chan struct{}

	mu       sync.Mutex
	response []byte
}

// answer is what the caller gets; the first one counts.
func (q *inquiry) answer(response rayserve.Response) error {
	body, err := rayserve.EncodeResponse(response)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.response == nil {
		q.response = body
	}
	return nil
}

// wait returns the answer when the task has ended, unless the caller has gone. A worker
// that stops ends ctx, and still answers what it has begun.
func (q *inquiry) wait(ctx context.Context, until time.Time) ([]byte, bool) {
	select {
	case <-q.settled:
	case <-ctx.Done():
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		select {
		case <-q.settled:
		case <-bounded.Done():
			return nil, false
		}
	}
	if !time.Now().Before(until) {
		return nil, false
	}
	// A task that was handed back has stored nothing.
	if err := q.answer(rayserve.Response{Status: rayserve.StatusFailure, Error: "the task has no result"}); err != nil {
		return nil, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.response, true
}

func (q *inquiry) end() error {
	err := transport.ErrSettled
	q.once.Do(func() {
		err = nil
		close(q.settled)
	})
	return err
}

func (q *inquiry) Body() []byte                                           { return q.body }
func (q *inquiry) Queue() string                                          { return q.queue }
func (*inquiry) Attempt() int                                             { return 1 }
func (*inquiry) Redelivered() bool                                        { return false }
func (*inquiry) Limit() (attempts int, queue string)                      { return 0, "" }
func (*inquiry) NoteError(string)                                         {}
func (q *inquiry) Ack(context.Context) error                              { return q.end() }
func (q *inquiry) Nack(context.Context) error                             { return q.end() }
func (q *inquiry) Requeue(context.Context, time.Duration) error           { return q.end() }
func (q *inquiry) Postpone(context.Context, time.Duration) error          { return q.end() }
func (q *inquiry) Release(context.Context) error                          { return q.end() }
func (q *inquiry) DeadLetter(context.Context, transport.DeadLetter) error { return q.end() }
