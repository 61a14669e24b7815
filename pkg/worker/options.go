package worker

import (
	"fmt"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// UnknownTask says what happens to a message whose task is not registered here.
type UnknownTask string

const (
	// UnknownReject stores FAILURE NotRegistered, as Celery does, and keeps the
	// message in the unprocessable queue. The default.
	UnknownReject UnknownTask = "reject"
	// UnknownRequeue hands the message back with a growing delay, for fleets that
	// share a queue with Python workers; after UnknownAttempts it is rejected.
	UnknownRequeue UnknownTask = "requeue"
)

// Options are a worker's settings. Names are Celery's, without the prefix; the
// zero value of a field is documented where it isn't Celery's default.
// DefaultOptions gives Celery's defaults.
type Options struct {
	// Hostname is the node name, such as "celery@host".
	Hostname string
	// Concurrency is the number of slots, at least 1 (worker_concurrency).
	Concurrency int
	// Queues are the names to consume, at least one.
	Queues []string

	// AcksLate settles after the task has run (task_acks_late).
	AcksLate bool
	// AcksOnFailure acks a late task that failed; else it is rejected
	// (task_acks_on_failure, task_acks_on_failure_or_timeout).
	AcksOnFailure bool
	// AcksOnTimeout is the same for a hard time limit (task_acks_on_timeout).
	AcksOnTimeout bool
	// RejectOnWorkerLost requeues a late task whose handler took the worker down
	// (task_reject_on_worker_lost).
	RejectOnWorkerLost bool

	// IgnoreResult is the default for tasks and messages that don't say
	// (task_ignore_result).
	IgnoreResult bool
	// StoreErrorsEvenIfIgnored: task_store_errors_even_if_ignored.
	StoreErrorsEvenIfIgnored bool
	// TrackStarted stores STARTED (task_track_started).
	TrackStarted bool
	// ResultExpires is how long results stay readable; 0 = the backend's longest.
	ResultExpires time.Duration
	// ResultExtended stores name, args, kwargs, worker, retries and queue too.
	ResultExtended bool

	// AcceptContent are the serializers (names or MIME types) that are decoded.
	AcceptContent []string
	// TaskProtocol is the version of the messages the worker publishes. Their
	// serializer and compression are those of the message they follow.
	TaskProtocol int
	// Timezone is the zone of date_done and of ETAs the worker computes.
	Timezone *time.Location
	// Limits bound what is decoded.
	Limits protocol.Limits

	// UnprocessableQueue is where messages go that can't be decoded. "%s" stands
	// for the queue's name; "" drops them with an error line.
	UnprocessableQueue string
	// UnknownTask and UnknownAttempts say what happens to unknown tasks.
	UnknownTask     UnknownTask
	UnknownAttempts int

	// RetryCountdownMax is the longest wait of a retry: one that asks for more, by
	// countdown or ETA, waits so long. 0 = no limit.
	RetryCountdownMax time.Duration

	// DeadLetterQueue is where rejected messages go; "" drops them, as Celery does
	// where the broker has no dead-letter exchange.
	DeadLetterQueue string
}

// DefaultOptions are Celery's defaults: one queue "celery", json only, early
// acks. Hostname and Concurrency must be set.
func DefaultOptions() Options {
	return Options{
		Queues:             []string{"celery"},
		AcksOnFailure:      true,
		AcksOnTimeout:      true,
		ResultExpires:      24 * time.Hour,
		AcceptContent:      []string{"json"},
		TaskProtocol:       protocol.Protocol2,
		Timezone:           time.UTC,
		Limits:             protocol.DefaultLimits(),
		UnprocessableQueue: "%s.unprocessable",
		UnknownTask:        UnknownReject,
		UnknownAttempts:    10,
		RetryCountdownMax:  24 * time.Hour,
	}
}

func (o *Options) validate() error {
	switch {
	case o.Hostname == "":
		return fmt.Errorf("%w: hostname is empty", ErrOptions)
	case o.Concurrency < 1:
		return fmt.Errorf("%w: concurrency is %d, at least 1 is needed", ErrOptions, o.Concurrency)
	case len(o.Queues) == 0:
		return fmt.Errorf("%w: no queue to consume", ErrOptions)
	case o.TaskProtocol != protocol.Protocol1 && o.TaskProtocol != protocol.Protocol2:
		return fmt.Errorf("%w: task_protocol is %d, 1 and 2 are allowed", ErrOptions, o.TaskProtocol)
	case o.UnknownTask != UnknownReject && o.UnknownTask != UnknownRequeue:
		return fmt.Errorf("%w: unknown_task is %q, %q and %q are allowed", ErrOptions, o.UnknownTask, UnknownReject, UnknownRequeue)
	case o.RetryCountdownMax < 0:
		return fmt.Errorf("%w: retry_countdown_max is %s, it must not be negative", ErrOptions, o.RetryCountdownMax)
	case o.Timezone == nil:
		return fmt.Errorf("%w: timezone is not set", ErrOptions)
	}
	seen := map[string]bool{}
	for _, queue := range o.Queues {
		if seen[queue] {
			return fmt.Errorf("%w: queue %q is named twice", ErrOptions, queue)
		}
		seen[queue] = true
	}
	return nil
}

// unprocessableQueue is where messages of queue go that can't be processed; ""
// drops them.
func (o *Options) unprocessableQueue(queue string) string {
	return strings.ReplaceAll(o.UnprocessableQueue, "%s", queue)
}
