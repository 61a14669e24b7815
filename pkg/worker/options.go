package worker

import (
	"fmt"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/canvas"
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
	// Concurrency is the number of slots, at least 1 (worker_concurrency). It is not
	// used where Autoscale is set.
	Concurrency int
	// Autoscale has the number of slots follow the depth of Queues; nil = Concurrency
	// (Celery's --autoscale).
	Autoscale *Autoscale
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

	// DeduplicateSuccessful settles a late task whose message may have been delivered
	// before, and whose stored state is SUCCESS, without running it
	// (worker_deduplicate_successful_tasks).
	DeduplicateSuccessful bool
	// DedupWindow is how many finished messages the worker remembers, so that one
	// which is delivered again is not run again; 0 = none, and a duplicate may run at
	// the same time too (worker_dedup_window, 16384 in DefaultOptions).
	DedupWindow int

	// AcceptContent are the serializers (names or MIME types) that are decoded.
	AcceptContent []string
	// TaskProtocol is the version of the messages the worker publishes. The
	// serializer and compression of a retry are those of the message it follows.
	TaskProtocol int
	// TaskSerializer and TaskCompression are those of a continuation whose signature
	// and task don't say; "" is json, and none.
	TaskSerializer, TaskCompression string
	// TaskRoutes and TaskDefaultQueue say where continuations go whose signature
	// doesn't; "" is Celery's default, "celery".
	TaskRoutes       canvas.Routes
	TaskDefaultQueue string
	// TaskInheritParentPriority gives continuations the priority of the task they
	// follow.
	TaskInheritParentPriority bool
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
	// MaxAttempts is how often a message is delivered at most: one that should come
	// once more goes to DeadLetterQueue (max_attempts, or max_receive_count in
	// broker_transport_options). What a message's producer asks for holds if it is
	// less. 0 = as often as it takes, as Celery does.
	MaxAttempts int

	// RayServe are the queues that speak the protocol of Ray Serve's adapter, by name;
	// each is one of Queues. The others speak Celery's.
	RayServe map[string]RayServeQueue

	// AutoAck has the broker ack each message as it hands it over, so that every task
	// is acked early, whatever it says (auto_ack in broker_transport_options). It is for
	// Celery's queues alone.
	AutoAck bool
}

// DefaultOptions are Celery's defaults: one queue "celery", json only, early
// acks. Hostname and Concurrency must be set.
func DefaultOptions() Options {
	return Options{
		Queues:             []string{"celery"},
		AcksOnFailure:      true,
		AcksOnTimeout:      true,
		ResultExpires:      24 * time.Hour,
		DedupWindow:        16_384,
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
	case o.leastSlots() < 1:
		return fmt.Errorf("%w: concurrency is %d, at least 1 is needed", ErrOptions, o.Concurrency)
	case len(o.Queues) == 0:
		return fmt.Errorf("%w: no queue to consume", ErrOptions)
	case o.TaskProtocol != protocol.Protocol1 && o.TaskProtocol != protocol.Protocol2:
		return fmt.Errorf("%w: task_protocol is %d, 1 and 2 are allowed", ErrOptions, o.TaskProtocol)
	case o.UnknownTask != UnknownReject && o.UnknownTask != UnknownRequeue:
		return fmt.Errorf("%w: unknown_task is %q, %q and %q are allowed", ErrOptions, o.UnknownTask, UnknownReject, UnknownRequeue)
	case o.RetryCountdownMax < 0:
		return fmt.Errorf("%w: retry_countdown_max is %s, it must not be negative", ErrOptions, o.RetryCountdownMax)
	case o.MaxAttempts < 0:
		return fmt.Errorf("%w: max_attempts is %d, at least 0 is needed", ErrOptions, o.MaxAttempts)
	case o.MaxAttempts > 0 && o.DeadLetterQueue == "":
		return fmt.Errorf("%w: max_attempts (max_receive_count) is %d without dead_letter_queue: messages beyond the limit would be lost",
			ErrOptions, o.MaxAttempts)
	case o.DedupWindow < 0:
		return fmt.Errorf("%w: worker_dedup_window is %d, at least 0 is needed", ErrOptions, o.DedupWindow)
	case o.Timezone == nil:
		return fmt.Errorf("%w: timezone is not set", ErrOptions)
	}
	if err := o.validateRayServe(); err != nil {
		return err
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
