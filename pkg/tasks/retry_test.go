package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// inWorker is the context of a handler whose task was retried before.
func inWorker(t *testing.T, retries, limit int) context.Context {
	t.Helper()
	return tasks.WithRequest(t.Context(), &tasks.Request{
		ID: "4711", Task: "proj.work", Retries: retries, MaxRetries: limit,
		Args: []any{int64(1)}, Kwargs: map[string]any{"k": "v"},
	})
}

func requireRetry(t *testing.T, err error) *tasks.RetryError {
	t.Helper()
	outcome, ok := tasks.OutcomeOf(err)
	require.True(t, ok)
	require.IsType(t, &tasks.RetryError{}, outcome)
	return outcome.(*tasks.RetryError)
}

func TestRetryDefaults(t *testing.T) {
	err := tasks.Retry(inWorker(t, 2, 3), io.EOF)
	require.Equal(t, &tasks.RetryError{Cause: io.EOF, Countdown: 180 * time.Second}, requireRetry(t, err))
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "tasks: retry in 180s: EOF")
}

func TestRetryTakesDelayOfTask(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.work", func(ctx context.Context, _ tasks.None) (int, error) {
		return 0, tasks.Retry(ctx, nil)
	}, tasks.DefaultRetryDelay(5*time.Second))
	_, err := lookup(t, r, "proj.work").Run(inWorker(t, 0, 3), tasks.Arguments{})
	require.Equal(t, 5*time.Second, requireRetry(t, err).Countdown)
}

func TestRetryOptions(t *testing.T) {
	eta := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]struct {
		options []tasks.RetryOption
		want    tasks.RetryError
	}{
		"countdown":        {[]tasks.RetryOption{tasks.Countdown(time.Second)}, tasks.RetryError{Countdown: time.Second}},
		"at once":          {[]tasks.RetryOption{tasks.Countdown(0)}, tasks.RetryError{}},
		"negative":         {[]tasks.RetryOption{tasks.Countdown(-time.Second)}, tasks.RetryError{}},
		"eta":              {[]tasks.RetryOption{tasks.Countdown(1), tasks.ETA(eta)}, tasks.RetryError{ETA: eta}},
		"eta, countdown":   {[]tasks.RetryOption{tasks.ETA(eta), tasks.Countdown(1)}, tasks.RetryError{Countdown: 1}},
		"args":             {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryArgs(7, "x")}, tasks.RetryError{Args: []any{7, "x"}}},
		"no args":          {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryArgs()}, tasks.RetryError{Args: []any{}}},
		"kwargs":           {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryKwargs(map[string]any{"a": 1})}, tasks.RetryError{Kwargs: map[string]any{"a": 1}}},
		"no kwargs":        {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryKwargs(nil)}, tasks.RetryError{Kwargs: map[string]any{}}},
		"queue":            {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryQueue("slow")}, tasks.RetryError{Queue: "slow"}},
		"priority":         {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryPriority(9)}, tasks.RetryError{Priority: new(9)}},
		"headers":          {[]tasks.RetryOption{tasks.Countdown(0), tasks.RetryHeaders(map[string]any{"a": 1, "b": 2}), tasks.RetryHeaders(map[string]any{"a": 3})}, tasks.RetryError{Headers: map[string]any{"a": 3, "b": 2}}},
		"limit for once":   {[]tasks.RetryOption{tasks.Countdown(0), tasks.MaxRetriesFor(4)}, tasks.RetryError{}},
		"no limit for now": {[]tasks.RetryOption{tasks.Countdown(0), tasks.MaxRetriesFor(tasks.RetryLimitless)}, tasks.RetryError{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			limit := 4
			if name == "limit for once" || name == "no limit for now" {
				limit = 3
			}
			require.Equal(t, &c.want, requireRetry(t, tasks.Retry(inWorker(t, 3, limit), nil, c.options...)))
		})
	}
}

// TestRetryOptionMistakes: the task fails with what was wrong, whatever the cause.
func TestRetryOptionMistakes(t *testing.T) {
	for want, option := range map[string]tasks.RetryOption{
		"RetryQueue: the name is empty":                  tasks.RetryQueue(""),
		"RetryPriority(10): the priority must be 0 to 9": tasks.RetryPriority(10),
		"RetryPriority(-1): the priority must be 0 to 9": tasks.RetryPriority(-1),
	} {
		err := tasks.Retry(inWorker(t, 0, 3), io.EOF, option)
		require.ErrorIs(t, err, tasks.ErrRetryOption)
		require.EqualError(t, err, "tasks: invalid option of Retry: proj.work[4711]: "+want)
		require.Equal(t, "ValueError", tasks.ExceptionOf(err).Type)
		_, decided := tasks.OutcomeOf(err)
		require.False(t, decided)
	}
}

func TestRetryWithoutLimit(t *testing.T) {
	requireRetry(t, tasks.Retry(inWorker(t, 1_000_000, tasks.RetryLimitless), nil))
}

func TestRetryWrapped(t *testing.T) {
	err := fmt.Errorf("charging: %w", tasks.Retry(inWorker(t, 0, 3), io.EOF, tasks.Countdown(time.Second)))
	require.Equal(t, time.Second, requireRetry(t, err).Countdown)
}

func TestRetryExhausted(t *testing.T) {
	err := tasks.Retry(inWorker(t, 3, 3), io.EOF)
	require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded)
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "tasks: can't retry proj.work[4711]: the maximum of retries is exceeded: EOF")
	outcome, ok := tasks.OutcomeOf(err)
	require.True(t, ok)
	require.IsType(t, &tasks.ExhaustedError{}, outcome)
	// What is stored is the cause, as in Celery.
	require.Equal(t, protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"EOF"}}, tasks.ExceptionOf(err))
	require.Equal(t, "Traceback (most recent call last):\nException: EOF\n", tasks.Traceback(err))

	// So it is when the handler says more about it.
	wrapped := fmt.Errorf("someone was paged: %w", err)
	require.ErrorIs(t, wrapped, tasks.ErrMaxRetriesExceeded)
	require.ErrorIs(t, wrapped, io.EOF)
	again, ok := tasks.OutcomeOf(wrapped)
	require.True(t, ok)
	require.Same(t, outcome, again)
	require.Equal(t, tasks.ExceptionOf(err), tasks.ExceptionOf(wrapped))
	require.Equal(t, tasks.Traceback(err), tasks.Traceback(wrapped))

	require.ErrorIs(t, tasks.Retry(inWorker(t, 0, 0), nil), tasks.ErrMaxRetriesExceeded)
	require.ErrorIs(t, tasks.Retry(inWorker(t, 1, 5), nil, tasks.MaxRetriesFor(1)), tasks.ErrMaxRetriesExceeded)
}

func TestRetryExhaustedWithoutCause(t *testing.T) {
	cases := map[string]struct {
		options []tasks.RetryOption
		request *tasks.Request
		want    string
	}{
		"request":   {nil, &tasks.Request{Task: "proj.x", ID: "1", Args: []any{int64(1)}}, "Can't retry proj.x[1] args:(1,) kwargs:{}"},
		"overrides": {[]tasks.RetryOption{tasks.RetryArgs(), tasks.RetryKwargs(map[string]any{"a": "b"})}, &tasks.Request{Task: "proj.x", ID: "1", Args: []any{int64(1)}}, "Can't retry proj.x[1] args:() kwargs:{'a': 'b'}"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := tasks.Retry(tasks.WithRequest(t.Context(), c.request), nil, c.options...)
			require.Equal(t, protocol.Exception{
				Type: "MaxRetriesExceededError", Module: "celery.exceptions", Args: []any{c.want},
			}, tasks.ExceptionOf(err))
			require.EqualError(t, err, "tasks: can't retry proj.x[1]: the maximum of retries is exceeded")
		})
	}
}

func TestRetryOutsideWorker(t *testing.T) {
	require.Equal(t, io.EOF, tasks.Retry(t.Context(), io.EOF))
	require.ErrorIs(t, tasks.Retry(t.Context(), nil), tasks.ErrNoRequest)
}

func TestRetryTexts(t *testing.T) {
	keyError := tasks.NewPythonError("builtins", "KeyError", "missing")
	eta := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]error{
		"Retry in 0.3s: KeyError('missing')":   &tasks.RetryError{Cause: keyError, Countdown: 300 * time.Millisecond},
		"Retry in 1000000s":                    &tasks.RetryError{Countdown: 1_000_000 * time.Second},
		"Retry in 0s":                          &tasks.RetryError{},
		"Retry at 2020-01-02 03:04:05+00:00":   &tasks.RetryError{ETA: eta},
		"Retry in 1s: Inner('a', 1)":           &tasks.RetryError{Countdown: time.Second, Cause: tasks.NewPythonError("proj", "App.Inner", "a", 1)},
		"Retry in 1s: SoftTimeLimitExceeded()": &tasks.RetryError{Countdown: time.Second, Cause: tasks.NewPythonError("billiard.exceptions", "SoftTimeLimitExceeded")},
	}
	for want, err := range cases {
		require.Equal(t, protocol.Exception{Type: "Retry", Module: "celery.exceptions", Args: []any{want}}, tasks.ExceptionOf(err))
	}
}

// As celery's own traceback of a retry reads.
func TestRetryTraceback(t *testing.T) {
	err := fmt.Errorf("charging: %w", &tasks.RetryError{Cause: errors.New("busy"), Countdown: time.Second})
	require.Equal(t, `Traceback (most recent call last):
Exception: busy

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
celery.exceptions.Retry: Retry in 1s: Exception('busy')
charging: tasks: retry in 1s: busy
`, tasks.Traceback(err))
}
