package tasks

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// ErrRetryOption is found by errors.Is in what Retry returns for an option out of
// range. It is the task's failure, as an error of Task.retry is in Celery.
var ErrRetryOption = errors.New("tasks: invalid option of Retry")

// RetryOption changes one retry.
type RetryOption func(*retryPlan)

// Countdown sets how long to wait; 0 or less is at once. Of Countdown and ETA the
// last one counts.
func Countdown(d time.Duration) RetryOption {
	return func(p *retryPlan) { p.retry.Countdown, p.retry.ETA = max(d, 0), time.Time{} }
}

// ETA sets when to run again.
func ETA(t time.Time) RetryOption {
	return func(p *retryPlan) { p.retry.Countdown, p.retry.ETA = 0, t }
}

// RetryArgs replaces the positional arguments for the next run.
func RetryArgs(args ...any) RetryOption {
	return func(p *retryPlan) { p.retry.Args = append([]any{}, args...) }
}

// RetryKwargs replaces the keyword arguments for the next run; nil is none.
func RetryKwargs(kwargs map[string]any) RetryOption {
	return func(p *retryPlan) {
		if kwargs == nil {
			kwargs = map[string]any{}
		}
		p.retry.Kwargs = kwargs
	}
}

// MaxRetriesFor replaces the task's limit for this decision (retry's max_retries
// argument); RetryLimitless is no limit.
func MaxRetriesFor(n int) RetryOption {
	return func(p *retryPlan) { p.limit = n }
}

// RetryQueue sends the task to another queue than the one it came from (retry's
// queue argument). An empty name is ErrRetryOption; one that the broker can't
// have fails the task when the retry is published.
func RetryQueue(name string) RetryOption {
	return func(p *retryPlan) {
		if name == "" {
			p.refuse("RetryQueue: the name is empty")
			return
		}
		p.retry.Queue = name
	}
}

// RetryPriority replaces the message's priority (retry's priority argument), 0 to
// 9; another number is ErrRetryOption. Which end is urgent depends on the broker.
func RetryPriority(n int) RetryOption {
	return func(p *retryPlan) {
		if n < 0 || n > 9 {
			p.refuse(fmt.Sprintf("RetryPriority(%d): the priority must be 0 to 9", n))
			return
		}
		p.retry.Priority = &n
	}
}

// RetryHeaders sets custom headers of the message (retry's headers argument), in
// place of those of the same name; the others are kept. Names of Celery's own
// headers are passed over.
func RetryHeaders(headers map[string]any) RetryOption {
	return func(p *retryPlan) {
		if p.retry.Headers == nil {
			p.retry.Headers = map[string]any{}
		}
		maps.Copy(p.retry.Headers, headers)
	}
}

// refuse notes the first mistake in the options.
func (p *retryPlan) refuse(mistake string) {
	if p.mistake == "" {
		p.mistake = mistake
	}
}
