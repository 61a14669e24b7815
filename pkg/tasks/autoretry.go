package tasks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// defaultRetryBackoffMax is Celery's default for Task.retry_backoff_max.
const defaultRetryBackoffMax = 600 * time.Second

// ErrorMatcher tells whether an error is one of a kind. Any function of this form
// is one; ErrorIs, ErrorType and AnyError make or are common ones.
type ErrorMatcher func(err error) bool

// ErrorIs matches errors that are one of targets by errors.Is.
func ErrorIs(targets ...error) ErrorMatcher {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// ErrorType matches errors that have one of type E in their chain, by errors.As;
// E may be an interface such as net.Error.
func ErrorType[E error]() ErrorMatcher {
	return func(err error) bool {
		var found E
		return errors.As(err, &found)
	}
}

// AnyError matches every error, a panic too: Celery's autoretry_for=(Exception,).
func AnyError(error) bool { return true }

// AutoRetryFor retries the task when its handler fails with an error that one of
// the matchers matches (Task.autoretry_for). What Retry, Reject and Ignore have
// made is passed on as it is. A panic is a *PanicError, to the matchers and to the
// middleware. When the retries are used up, the task fails with the error.
func AutoRetryFor(matchers ...ErrorMatcher) Option {
	return addMatchers("AutoRetryFor", matchers, func(o *Options) *[]ErrorMatcher { return &o.AutoRetryFor })
}

// DontAutoRetryFor exempts errors from AutoRetryFor (Task.dont_autoretry_for).
func DontAutoRetryFor(matchers ...ErrorMatcher) Option {
	return addMatchers("DontAutoRetryFor", matchers, func(o *Options) *[]ErrorMatcher { return &o.DontAutoRetryFor })
}

func addMatchers(name string, matchers []ErrorMatcher, field func(*Options) *[]ErrorMatcher) Option {
	return func(o *Options) error {
		for _, matcher := range matchers {
			if matcher == nil {
				return fmt.Errorf("%s: a matcher is nil", name)
			}
		}
		*field(o) = append(*field(o), matchers...)
		return nil
	}
}

// RetryBackoff lets the wait of automatic retries double each time: factor
// seconds, 2·factor, 4·factor and so on, up to RetryBackoffMax, and then anything
// below that by RetryJitter (Task.retry_backoff; its True is 1). 0 turns it off.
func RetryBackoff(factor int) Option {
	return func(o *Options) error {
		if factor < 0 {
			return fmt.Errorf("RetryBackoff(%d): the factor must not be negative", factor)
		}
		o.RetryBackoff = factor
		return nil
	}
}

// RetryBackoffMax is the longest wait of RetryBackoff, in whole seconds, a
// fraction is cut off (Task.retry_backoff_max). 600 s where the task doesn't say.
func RetryBackoffMax(d time.Duration) Option {
	return func(o *Options) error {
		if d < 0 {
			return fmt.Errorf("RetryBackoffMax(%s): the wait must not be negative", d)
		}
		o.RetryBackoffMax = d
		return nil
	}
}

// RetryJitter makes the wait of RetryBackoff a random number of whole seconds from
// 0 to what it would be, so that tasks that failed together don't come back
// together (Task.retry_jitter). On unless it is turned off.
func RetryJitter(on bool) Option {
	return func(o *Options) error {
		o.RetryJitter = on
		return nil
	}
}

// AutoRetryOptions are options for each automatic retry, such as Countdown,
// MaxRetriesFor or RetryQueue (Task.retry_kwargs). RetryBackoff beats a Countdown
// here.
func AutoRetryOptions(options ...RetryOption) Option {
	return func(o *Options) error {
		for _, option := range options {
			if option == nil {
				return errors.New("AutoRetryOptions: an option is nil")
			}
		}
		o.AutoRetryOptions = append(o.AutoRetryOptions, options...)
		return nil
	}
}

// autoRetry wraps the handler inside its middleware, as Celery wraps Task.run: the
// middleware sees the retry.
func (t *Task) autoRetry(handler HandlerFunc) HandlerFunc {
	if len(t.options.AutoRetryFor) == 0 {
		return handler
	}
	return func(ctx context.Context, args Arguments) (result any, err error) {
		if panicked := guard(func() { result, err = handler(ctx, args); probe(err) }); panicked != nil {
			result, err = nil, panicked
		}
		if err == nil || !t.options.autoRetries(err) {
			return result, err
		}
		return nil, t.options.automatic(ctx, err)
	}
}

// autoRetries tells whether a handler's error is retried without being asked.
func (o *Options) autoRetries(err error) bool {
	matches := func(matcher ErrorMatcher) bool { return matcher(err) }
	if _, decided := OutcomeOf(err); decided {
		return false
	}
	return !slices.ContainsFunc(o.DontAutoRetryFor, matches) && slices.ContainsFunc(o.AutoRetryFor, matches)
}

// automatic is the retry for err, or what Retry makes of it.
func (o *Options) automatic(ctx context.Context, err error) error {
	options := slices.Clone(o.AutoRetryOptions)
	if request, ok := RequestFrom(ctx); ok && o.RetryBackoff > 0 {
		options = append(options, Countdown(o.backoff(request.Retries)))
	}
	retried := Retry(ctx, err, options...)
	if retry, ok := retried.(*RetryError); ok { //nolint:errorlint // Retry has made it, err in it may hold another
		retry.Automatic = true
	}
	return retried
}

// backoff is Celery's get_exponential_backoff_interval: min(max, factor·2^retries)
// whole seconds, and with jitter a random number from 0 to that.
func (o *Options) backoff(retries int) time.Duration {
	longest := int64(o.RetryBackoffMax / time.Second)
	wait := int64(o.RetryBackoff)
	for ; retries > 0 && wait < longest; retries-- {
		wait *= 2 // longest is below 2^34, so this can't overflow
	}
	wait = min(wait, longest)
	switch {
	case !o.RetryJitter:
	case o.random != nil:
		wait = o.random(wait + 1)
	default:
		wait = rand.Int64N(wait + 1) //nolint:gosec // it spreads load, nobody gains by guessing it
	}
	return time.Duration(wait) * time.Second
}
