package tasks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// ErrMaxRetriesExceeded is found by errors.Is in what Retry returns once the task
// has used up its retries.
var ErrMaxRetriesExceeded = errors.New("tasks: the maximum of retries is exceeded")

// ErrNoRequest is what Retry returns outside a worker if there is no cause.
var ErrNoRequest = errors.New("tasks: Task can be retried, but no worker is there to do it")

// Retry returns the error with which a handler ends to be run again (Celery's
// Task.retry). cause is why; it is stored with the state RETRY and may be nil.
//
//	return nil, tasks.Retry(ctx, err, tasks.Countdown(30*time.Second))
//
// The wait is the task's DefaultRetryDelay unless an option sets it. When the
// retries are used up the error is an *ExhaustedError instead; an option out of
// range makes it ErrRetryOption. Outside a worker, where ctx has no request, it is
// the cause itself, or ErrNoRequest.
func Retry(ctx context.Context, cause error, options ...RetryOption) error {
	request, ok := RequestFrom(ctx)
	if !ok {
		if cause != nil {
			return cause
		}
		return ErrNoRequest
	}
	plan := retryPlan{retry: RetryError{Cause: cause, Countdown: retryDelay(ctx)}, limit: request.MaxRetries}
	for _, option := range options {
		option(&plan)
	}
	if plan.mistake != "" {
		err := fmt.Errorf("%w: %s[%s]: %s", ErrRetryOption, request.Task, request.ID, plan.mistake)
		return WithPythonClass(err, builtins, "ValueError")
	}
	if plan.limit >= 0 && request.Retries+1 > plan.limit {
		return plan.exhausted(request)
	}
	return &plan.retry
}

func retryDelay(ctx context.Context) time.Duration {
	if task := taskFrom(ctx); task != nil {
		return task.options.DefaultRetryDelay
	}
	return defaultRetryDelay
}

// retryPlan is a retry that is being decided.
type retryPlan struct {
	retry RetryError
	limit int
	// mistake is what is wrong with the options.
	mistake string
}

// RetryError ends a task that is to run again; Retry makes it. A middleware may
// change the one that its next handler has returned, for example to set a header.
type RetryError struct {
	// Cause is why, nil if the handler didn't say.
	Cause error
	// Countdown is how long to wait from now; 0 is at once. It means nothing if ETA
	// is set.
	Countdown time.Duration
	// ETA, if not zero, is when to run again.
	ETA time.Time
	// Args and Kwargs replace the request's for the next run; nil keeps them.
	Args   []any
	Kwargs map[string]any
	// Queue is where the message goes, "" for the queue it came from.
	Queue string
	// Priority, if not nil, replaces the message's, 0 to 9.
	Priority *int
	// Headers are set on the message, in place of its custom headers of the same
	// name; nil keeps all.
	Headers map[string]any
	// Automatic tells that AutoRetryFor has asked for it, and not the handler.
	Automatic bool
}

// Error tells when and why.
func (e *RetryError) Error() string {
	text := "tasks: retry " + e.when()
	if e.Cause != nil {
		text += ": " + fmt.Sprint(e.Cause)
	}
	return text
}

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Cause }

func (*RetryError) outcome() {}

// PythonException is celery.exceptions.Retry with Celery's text, such as
// "Retry in 0.3s: KeyError('missing')". The result of the state RETRY is not this
// but the exception of the cause.
func (e *RetryError) PythonException() protocol.Exception {
	text := "Retry " + e.when()
	if e.Cause != nil {
		text += ": " + ExceptionOf(e.Cause).String()
	}
	return protocol.Exception{Type: "Retry", Module: celeryExceptions, Args: []any{text}}
}

func (e *RetryError) when() string {
	if !e.ETA.IsZero() {
		return "at " + strings.Replace(protocol.FormatTime(e.ETA), "T", " ", 1)
	}
	return "in " + strconv.FormatFloat(e.Countdown.Seconds(), 'f', -1, 64) + "s"
}

// ExhaustedError says that a task was to be retried but has no retries left. It is
// both ErrMaxRetriesExceeded and its cause for errors.Is, and a failure.
type ExhaustedError struct {
	// Cause is what Retry was given, possibly nil.
	Cause error
	// Task and ID name the request, Args and Kwargs are those of the refused run.
	Task, ID string
	Args     []any
	Kwargs   map[string]any
}

func (p *retryPlan) exhausted(request *Request) error {
	e := &ExhaustedError{Cause: p.retry.Cause, Task: request.Task, ID: request.ID, Args: request.Args, Kwargs: request.Kwargs}
	if p.retry.Args != nil {
		e.Args = p.retry.Args
	}
	if p.retry.Kwargs != nil {
		e.Kwargs = p.retry.Kwargs
	}
	return e
}

// Error names the task, and the cause if there is one.
func (e *ExhaustedError) Error() string {
	text := fmt.Sprintf("tasks: can't retry %s[%s]: the maximum of retries is exceeded", e.Task, e.ID)
	if e.Cause != nil {
		text += ": " + fmt.Sprint(e.Cause)
	}
	return text
}

// Unwrap returns ErrMaxRetriesExceeded and the cause.
func (e *ExhaustedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrMaxRetriesExceeded}
	}
	return []error{ErrMaxRetriesExceeded, e.Cause}
}

func (*ExhaustedError) outcome() {}

// PythonException is the cause's, or celery.exceptions.MaxRetriesExceededError
// where there is none, as in Celery.
func (e *ExhaustedError) PythonException() protocol.Exception {
	if e.Cause != nil {
		return ExceptionOf(e.Cause)
	}
	kwargs := e.Kwargs
	if kwargs == nil {
		kwargs = map[string]any{}
	}
	text := fmt.Sprintf("Can't retry %s[%s] args:%s kwargs:%s",
		e.Task, e.ID, protocol.ReprArgs(e.Args), protocol.Repr(kwargs, protocol.ReprLimit))
	return protocol.Exception{Type: "MaxRetriesExceededError", Module: celeryExceptions, Args: []any{text}}
}
