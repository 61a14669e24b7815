package worker

import (
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// Observer is told what the worker does: logs, metrics, traces and monitors are
// observers. Observe is called from many goroutines, before the step it reports
// is over, so it must return quickly; a panic in it is swallowed.
type Observer interface {
	Observe(event Event)
}

// Event is one of the types below. New types may be added: an observer ignores
// what it doesn't know.
type Event interface{ event() }

// The life of the worker.
type (
	// AcksLateIgnored means: these tasks ask for acks_late, but the broker acks each
	// message as it hands it over (Options.AutoAck). It comes before Started.
	AcksLateIgnored struct{ Tasks []string }
	// Started means: the worker consumes. Concurrency is its slots at that moment.
	Started struct {
		Hostname    string
		Queues      []string
		Concurrency int
		Tasks       []string
	}
	// Stopping means: no more messages are fetched; Cancelled tells that running tasks
	// are cancelled too.
	Stopping struct{ Cancelled bool }
	// Stopped means: everything is settled or handed back.
	Stopped struct{}
	// Scaled means: the worker has To slots now (Options.Autoscale). Depth is what it
	// follows, now; when slots are taken away it was less for a while.
	Scaled struct {
		From, To int
		Depth    int64
	}
	// DepthUnknown means: the broker doesn't tell how long the queues are, so the number
	// of slots stays. It comes once for each outage.
	DepthUnknown struct{ Err error }
)

// The life of a task.
type (
	// TaskReceived means: the message is decoded and its task will run here.
	// Queued is when the message became ready to be taken, by the broker's clock; zero
	// where the broker doesn't tell.
	TaskReceived struct {
		Request *tasks.Request
		Queued  time.Time
	}
	// TaskPostponed means: the message went back to the broker until its ETA is near.
	TaskPostponed struct {
		Request *tasks.Request
		Delay   time.Duration
	}
	// TaskStarted means: the handler is called now.
	TaskStarted struct{ Request *tasks.Request }
	// TaskSucceeded means: Result is a wire value.
	TaskSucceeded struct {
		Request *tasks.Request
		Result  any
		Runtime time.Duration
	}
	// TaskFailed means: Expected tells that the error is one the task throws.
	TaskFailed struct {
		Request   *tasks.Request
		Err       error
		Exception protocol.Exception
		Traceback string
		Runtime   time.Duration
		Expected  bool
	}
	// TaskRetried means: the copy is published; it runs at When, or at once if zero.
	TaskRetried struct {
		Request *tasks.Request
		Cause   error
		Delay   time.Duration
		When    time.Time
	}
	// RetryBounded means: a retry that asked for a longer wait than
	// Options.RetryCountdownMax gets that.
	RetryBounded struct {
		Request    *tasks.Request
		Asked, Max time.Duration
	}
	// TaskIgnored means: the handler wants no result.
	TaskIgnored struct {
		Request *tasks.Request
		Reason  string
	}
	// TaskRejected means: the message is rejected, for good or to be delivered again.
	TaskRejected struct {
		Request *tasks.Request
		Requeue bool
		Reason  string
	}
	// TaskRevoked means: the task did not run; Expired tells why.
	TaskRevoked struct {
		Request *tasks.Request
		Expired bool
	}
	// TaskCancelled means: a cold shutdown ended the handler; HandedBack tells whether
	// the message will be delivered again.
	TaskCancelled struct {
		Request    *tasks.Request
		HandedBack bool
	}
	// TaskEnded means: all of the above is told of this run, and its message is
	// settled or given back. It is the last event of a task that ran, was revoked or
	// expired.
	TaskEnded struct{ Request *tasks.Request }
)

// Fate is what became of a message that is no task of this worker.
type Fate int

// The fates.
const (
	// Dropped: it is gone; no queue is set for such messages.
	Dropped Fate = iota
	// Kept: it is in a queue for people to look at.
	Kept
	// HandedBack: it will be delivered again, here or to another worker.
	HandedBack
	// Answered: it was a query, and who has asked knows why it failed.
	Answered
)

// Messages that don't become tasks, and what goes wrong.
type (
	// TaskUnknown means: no handler is registered. KeptIn is the queue that has the
	// message now, where its fate is Kept.
	TaskUnknown struct {
		Task, ID, Queue, KeptIn string
		Fate                    Fate
	}
	// MessageUnprocessable means: the message can't be decoded or asks for what the
	// worker can't do. KeptIn as above.
	MessageUnprocessable struct {
		Queue, KeptIn, Reason string
		Fate                  Fate
		Err                   error
	}
	// DeadLettered means: a message has been moved to the dead-letter queue Queue.
	// Reason is the word that is kept beside it: rejected, max-attempts or worker-lost.
	DeadLettered struct {
		Request                 *tasks.Request
		ID, Task, Queue, Reason string
		Err                     error
	}
	// StartUnnoted means: the note that a task is about to start could not be kept. The
	// task runs all the same; an attempt that ends in a crash is not counted then.
	StartUnnoted struct {
		Request *tasks.Request
		Err     error
	}
	// SettleFailed means: the broker did not confirm a settlement; it will deliver the
	// message again. Where it was Acked before it won't: the worker tries to send a copy
	// once more, and the message is gone if that fails, too.
	SettleFailed struct {
		Queue, ID, Operation string
		Err                  error
		Acked                bool
	}
	// StoreFailed means: a result could not be stored; GivenUp tells that it won't be
	// tried again.
	StoreFailed struct {
		ID      string
		State   protocol.State
		Err     error
		GivenUp bool
	}
	// PublishFailed means: a retry, or what follows a task, could not be published; it
	// is tried again unless GivenUp.
	PublishFailed struct {
		ID, Queue string
		Err       error
		GivenUp   bool
	}
	// Polled means: a request for messages of a queue is answered, after so long.
	Polled struct {
		Queue     string
		Took      time.Duration
		Delivered int
	}
	// NoRetryCeiling means: no limit is set for a queue of Ray Serve's protocol, so
	// that a task which fails comes again for ever. It comes before Started.
	NoRetryCeiling struct{ Queue string }
	// FetchFailed means: a consumer can't receive; it is tried again.
	FetchFailed struct {
		Queue string
		Err   error
	}
	// HookPanicked means: a user's hook panicked; the task is not affected. Request is
	// nil where the hook was called for a message that is no task.
	HookPanicked struct {
		Request *tasks.Request
		Err     error
	}
)

func (AcksLateIgnored) event()      {}
func (Started) event()              {}
func (Stopping) event()             {}
func (Stopped) event()              {}
func (Scaled) event()               {}
func (DepthUnknown) event()         {}
func (TaskReceived) event()         {}
func (TaskPostponed) event()        {}
func (TaskStarted) event()          {}
func (TaskSucceeded) event()        {}
func (TaskFailed) event()           {}
func (TaskRetried) event()          {}
func (RetryBounded) event()         {}
func (TaskIgnored) event()          {}
func (TaskRejected) event()         {}
func (TaskRevoked) event()          {}
func (TaskCancelled) event()        {}
func (TaskEnded) event()            {}
func (TaskUnknown) event()          {}
func (MessageUnprocessable) event() {}
func (DeadLettered) event()         {}
func (StartUnnoted) event()         {}
func (SettleFailed) event()         {}
func (StoreFailed) event()          {}
func (PublishFailed) event()        {}
func (Polled) event()               {}
func (NoRetryCeiling) event()       {}
func (FetchFailed) event()          {}
func (HookPanicked) event()         {}

// observe tells every observer. One that panics must not take a task down.
func (w *Worker) observe(event Event) {
	for _, observer := range w.observers {
		func() {
			defer func() { _ = recover() }()
			observer.Observe(event)
		}()
	}
}
