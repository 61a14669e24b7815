package tasks

import (
	"errors"
	"fmt"
	"time"
)

// Celery's defaults for Task.max_retries and Task.default_retry_delay.
const (
	defaultMaxRetries = 3
	defaultRetryDelay = 180 * time.Second
)

// RetryLimitless is the limit of a task that is retried for ever: Celery's
// max_retries=None.
const RetryLimitless = -1

// Options are the options of a task, under Celery's names. Where a field is nil,
// empty or 0 the worker's setting counts, unless the field says otherwise.
type Options struct {
	// AcksLate settles the message after the handler (Task.acks_late).
	AcksLate *bool
	// AcksOnFailure acks a late-acked message whose handler failed; else it is
	// rejected (Task.acks_on_failure).
	AcksOnFailure *bool
	// AcksOnTimeout acks a late-acked message whose handler ran into the hard time
	// limit; else it is requeued (Task.acks_on_timeout).
	AcksOnTimeout *bool
	// RejectOnWorkerLost requeues a late-acked message whose handler took the
	// worker down (Task.reject_on_worker_lost).
	RejectOnWorkerLost *bool

	// MaxRetries is how often Retry may retry, RetryLimitless for ever
	// (Task.max_retries). 3 where the task doesn't say.
	MaxRetries int
	// DefaultRetryDelay is how long Retry waits if it isn't told
	// (Task.default_retry_delay). 180 s where the task doesn't say; 0 is at once.
	DefaultRetryDelay time.Duration

	// AutoRetryFor and DontAutoRetryFor are the errors that are retried without
	// being asked, and those that are not (Task.autoretry_for,
	// Task.dont_autoretry_for).
	AutoRetryFor, DontAutoRetryFor []ErrorMatcher
	// AutoRetryOptions are for each automatic retry (Task.retry_kwargs).
	AutoRetryOptions []RetryOption
	// RetryBackoff is the first wait in seconds of automatic retries that wait ever
	// longer, 0 for the same wait each time (Task.retry_backoff).
	RetryBackoff int
	// RetryBackoffMax bounds that wait (Task.retry_backoff_max). 600 s where the task
	// doesn't say.
	RetryBackoffMax time.Duration
	// RetryJitter makes the wait random (Task.retry_jitter). On where the task doesn't
	// say.
	RetryJitter bool

	// IgnoreResult stores no result (Task.ignore_result). A message may say
	// otherwise.
	IgnoreResult *bool
	// StoreErrorsEvenIfIgnored stores failures of tasks whose result is ignored
	// (Task.store_errors_even_if_ignored).
	StoreErrorsEvenIfIgnored *bool
	// TrackStarted stores STARTED when the handler starts (Task.track_started).
	TrackStarted *bool
	// Serializer names the serializer of messages that the worker publishes for
	// this task (Task.serializer).
	Serializer string

	// Throws are errors that are part of the plan: failures that are logged at
	// INFO (Task.throws).
	Throws []error

	// TimeLimit and SoftTimeLimit are the hard and the soft limit of the handler's
	// run time (Task.time_limit, Task.soft_time_limit).
	TimeLimit, SoftTimeLimit time.Duration

	// hooks are the task's own, see Task.Hooks.
	hooks Hooks
	// random is a number from 0 to n-1, for the jitter; nil is math/rand's.
	random func(n int64) int64
}

// Expected tells whether err is one of Throws, by errors.Is.
func (o Options) Expected(err error) bool {
	for _, expected := range o.Throws {
		if errors.Is(err, expected) {
			return true
		}
	}
	return false
}

// Option sets an option of a task. An error it returns is reported by
// Registry.Err.
type Option func(*Options) error

func applyOptions(options []Option) (Options, error) {
	o := Options{
		MaxRetries: defaultMaxRetries, DefaultRetryDelay: defaultRetryDelay,
		RetryBackoffMax: defaultRetryBackoffMax, RetryJitter: true,
	}
	for _, option := range options {
		if err := option(&o); err != nil {
			return Options{}, err
		}
	}
	return o, nil
}

// AcksLate sets Options.AcksLate, to true if no value is given.
func AcksLate(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.AcksLate }, on)
}

// AcksOnFailure sets Options.AcksOnFailure, to true if no value is given.
func AcksOnFailure(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.AcksOnFailure }, on)
}

// AcksOnTimeout sets Options.AcksOnTimeout, to true if no value is given.
func AcksOnTimeout(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.AcksOnTimeout }, on)
}

// RejectOnWorkerLost sets Options.RejectOnWorkerLost, to true if no value is
// given.
func RejectOnWorkerLost(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.RejectOnWorkerLost }, on)
}

// IgnoreResult sets Options.IgnoreResult, to true if no value is given.
func IgnoreResult(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.IgnoreResult }, on)
}

// StoreErrorsEvenIfIgnored sets Options.StoreErrorsEvenIfIgnored, to true if no
// value is given.
func StoreErrorsEvenIfIgnored(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.StoreErrorsEvenIfIgnored }, on)
}

// TrackStarted sets Options.TrackStarted, to true if no value is given.
func TrackStarted(on ...bool) Option {
	return flag(func(o *Options) **bool { return &o.TrackStarted }, on)
}

func flag(field func(*Options) **bool, on []bool) Option {
	return func(o *Options) error {
		if len(on) > 1 {
			return fmt.Errorf("an option takes one bool at most, not %d", len(on))
		}
		value := len(on) == 0 || on[0]
		*field(o) = &value
		return nil
	}
}

// MaxRetries sets how often the task may be retried, 0 for never.
func MaxRetries(n int) Option {
	return func(o *Options) error {
		if n < 0 {
			return fmt.Errorf("MaxRetries(%d): the number must not be negative; RetryForever sets no limit", n)
		}
		o.MaxRetries = n
		return nil
	}
}

// RetryForever sets no limit to retries: Celery's max_retries=None.
func RetryForever() Option {
	return func(o *Options) error {
		o.MaxRetries = RetryLimitless
		return nil
	}
}

// DefaultRetryDelay sets how long Retry waits if it isn't told; 0 is at once.
func DefaultRetryDelay(d time.Duration) Option {
	return func(o *Options) error {
		if d < 0 {
			return fmt.Errorf("DefaultRetryDelay(%s): the delay must not be negative", d)
		}
		o.DefaultRetryDelay = d
		return nil
	}
}

// Serializer sets the serializer of messages published for the task, such as
// "json".
func Serializer(name string) Option {
	return func(o *Options) error {
		if name == "" {
			return errors.New("Serializer: the name is empty")
		}
		o.Serializer = name
		return nil
	}
}

// Throws adds errors that are part of the plan.
func Throws(expected ...error) Option {
	return func(o *Options) error {
		for _, err := range expected {
			if err == nil {
				return errors.New("Throws: an error is nil")
			}
		}
		o.Throws = append(o.Throws, expected...)
		return nil
	}
}

// TimeLimit sets the hard time limit.
func TimeLimit(d time.Duration) Option {
	return limit("TimeLimit", d, func(o *Options) *time.Duration { return &o.TimeLimit })
}

// SoftTimeLimit sets the soft time limit.
func SoftTimeLimit(d time.Duration) Option {
	return limit("SoftTimeLimit", d, func(o *Options) *time.Duration { return &o.SoftTimeLimit })
}

func limit(name string, d time.Duration, field func(*Options) *time.Duration) Option {
	return func(o *Options) error {
		if d <= 0 {
			return fmt.Errorf("%s(%s): the limit must be positive", name, d)
		}
		*field(o) = d
		return nil
	}
}
