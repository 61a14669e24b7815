package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// TestBackoffIsCelerys compares with what get_exponential_backoff_interval
// returned; testdata/backoff.py has written it.
func TestBackoffIsCelerys(t *testing.T) {
	text, err := os.ReadFile("testdata/backoff.json")
	require.NoError(t, err)
	var golden struct {
		Cases [][5]int64 `json:"backoff_max_retries_wait_range"`
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Greater(t, len(golden.Cases), 700)
	for _, c := range golden.Cases {
		backoff, longest, retries, wait, jitter := c[0], c[1], c[2], c[3], c[4]
		options := []tasks.Option{
			tasks.RetryBackoff(int(backoff)), tasks.RetryBackoffMax(time.Duration(longest) * time.Second),
		}
		plain := optionsOf(t, append(options, tasks.RetryJitter(false))...)
		require.Equal(t, wait, plain.Backoff(int(retries)), "%v", c)
		var asked int64
		jittered := optionsOf(t, append(options, tasks.WithRandom(func(n int64) int64 { asked = n; return n / 2 }))...)
		require.Equal(t, jitter/2, jittered.Backoff(int(retries)), "%v", c)
		require.Equal(t, jitter, asked, "%v", c)
	}
}

func TestBackoffBounds(t *testing.T) {
	options := optionsOf(t, tasks.RetryBackoff(math.MaxInt), tasks.RetryBackoffMax(math.MaxInt64), tasks.RetryJitter(false))
	require.Equal(t, int64(math.MaxInt64/time.Second), options.Backoff(math.MaxInt))
	options = optionsOf(t, tasks.RetryBackoff(1), tasks.RetryBackoffMax(math.MaxInt64), tasks.RetryJitter(false))
	require.Equal(t, int64(math.MaxInt64/time.Second), options.Backoff(math.MaxInt))
	require.EqualValues(t, 1, options.Backoff(-5), "the header is the producer's")

	seen := map[int64]bool{}
	options = optionsOf(t, tasks.RetryBackoff(2))
	for range 1000 {
		wait := options.Backoff(0)
		require.GreaterOrEqual(t, wait, int64(0))
		require.LessOrEqual(t, wait, int64(2))
		seen[wait] = true
	}
	require.Len(t, seen, 3, "0, 1 and 2 all occur")
}

// failWith runs a task that fails with err after so many retries.
func failWith(t *testing.T, retries int, fail func() error, options ...tasks.Option) error {
	t.Helper()
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "proj.work", func(context.Context, tasks.Arguments) (any, error) { return nil, fail() }, options...)
	task := lookup(t, r, "proj.work")
	_, err := task.Run(inWorker(t, retries, task.Options().MaxRetries), tasks.Arguments{})
	return err
}

func returns(err error) func() error { return func() error { return err } }

func TestAutoRetryMatches(t *testing.T) {
	notFound := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	timeout := &net.DNSError{Err: "slow", IsTimeout: true}
	temporary := func(err error) bool { return err.Error() == "come back" }
	cases := map[string]struct {
		fail    func() error
		options []tasks.Option
		retried bool
	}{
		"value":                      {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorIs(io.EOF))}, true},
		"wrapped value":              {returns(fmt.Errorf("reading: %w", io.EOF)), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorIs(io.EOF))}, true},
		"one of values":              {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorIs(fs.ErrExist, io.EOF))}, true},
		"another value":              {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorIs(io.ErrUnexpectedEOF))}, false},
		"type":                       {returns(notFound), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorType[*fs.PathError]())}, true},
		"interface":                  {returns(timeout), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorType[net.Error]())}, true},
		"another type":               {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorType[net.Error]())}, false},
		"predicate":                  {returns(errors.New("come back")), []tasks.Option{tasks.AutoRetryFor(temporary)}, true},
		"predicate says no":          {returns(errors.New("go away")), []tasks.Option{tasks.AutoRetryFor(temporary)}, false},
		"any":                        {returns(errors.New("whatever")), []tasks.Option{tasks.AutoRetryFor(tasks.AnyError)}, true},
		"the second of two":          {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(temporary), tasks.AutoRetryFor(tasks.ErrorIs(io.EOF))}, true},
		"exempt wins":                {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(tasks.AnyError), tasks.DontAutoRetryFor(tasks.ErrorIs(io.EOF))}, false},
		"another is exempt":          {returns(notFound), []tasks.Option{tasks.DontAutoRetryFor(tasks.ErrorIs(io.EOF)), tasks.AutoRetryFor(tasks.AnyError)}, true},
		"exempt alone":               {returns(io.EOF), []tasks.Option{tasks.DontAutoRetryFor(tasks.ErrorIs(io.ErrNoProgress))}, false},
		"ignore":                     {returns(tasks.Ignore("")), []tasks.Option{tasks.AutoRetryFor(tasks.AnyError)}, false},
		"reject":                     {returns(tasks.Reject("", true)), []tasks.Option{tasks.AutoRetryFor(tasks.AnyError)}, false},
		"panic with the value":       {func() error { panic(io.EOF) }, []tasks.Option{tasks.AutoRetryFor(tasks.ErrorIs(io.EOF))}, false},
		"panic and any":              {func() error { panic(io.EOF) }, []tasks.Option{tasks.AutoRetryFor(tasks.AnyError)}, true},
		"panic and its type":         {func() error { panic("x") }, []tasks.Option{tasks.AutoRetryFor(tasks.ErrorType[*tasks.PanicError]())}, true},
		"typed nil that panics":      {returns((*fs.PathError)(nil)), []tasks.Option{tasks.AutoRetryFor(tasks.ErrorType[*fs.PathError]())}, false},
		"panic exempt":               {func() error { panic("x") }, []tasks.Option{tasks.AutoRetryFor(tasks.AnyError), tasks.DontAutoRetryFor(tasks.ErrorType[*tasks.PanicError]())}, false},
		"matcher that panics itself": {returns(io.EOF), []tasks.Option{tasks.AutoRetryFor(func(error) bool { panic("matcher") })}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := failWith(t, 0, c.fail, c.options...)
			require.Error(t, err)
			outcome, _ := tasks.OutcomeOf(err)
			retry, retried := outcome.(*tasks.RetryError)
			require.Equal(t, c.retried, retried, "%v", err)
			if retried {
				require.True(t, retry.Automatic)
				require.Error(t, retry.Cause)
			}
		})
	}
}

func TestAutoRetryWaits(t *testing.T) {
	auto := tasks.AutoRetryFor(tasks.AnyError)
	half := tasks.WithRandom(func(n int64) int64 { return n / 2 })
	cases := map[string]struct {
		retries int
		options []tasks.Option
		want    time.Duration
	}{
		"default":               {0, nil, 180 * time.Second},
		"delay of the task":     {0, []tasks.Option{tasks.DefaultRetryDelay(5 * time.Second)}, 5 * time.Second},
		"countdown":             {2, []tasks.Option{tasks.AutoRetryOptions(tasks.Countdown(7 * time.Second))}, 7 * time.Second},
		"backoff":               {2, []tasks.Option{tasks.RetryBackoff(3), tasks.RetryJitter(false)}, 12 * time.Second},
		"backoff, first":        {0, []tasks.Option{tasks.RetryBackoff(3), tasks.RetryJitter(false)}, 3 * time.Second},
		"backoff and countdown": {0, []tasks.Option{tasks.RetryBackoff(3), tasks.RetryJitter(false), tasks.AutoRetryOptions(tasks.Countdown(time.Hour))}, 3 * time.Second},
		"jitter is the default": {2, []tasks.Option{tasks.RetryBackoff(3), half}, 6 * time.Second},
		"600 s are the default": {99, []tasks.Option{tasks.RetryBackoff(1), tasks.RetryForever(), tasks.RetryJitter(false)}, 600 * time.Second},
		"maximum":               {99, []tasks.Option{tasks.RetryBackoff(1), tasks.RetryForever(), tasks.RetryJitter(false), tasks.RetryBackoffMax(90 * time.Minute)}, 90 * time.Minute},
		"whole seconds":         {99, []tasks.Option{tasks.RetryBackoff(1), tasks.RetryForever(), tasks.RetryJitter(false), tasks.RetryBackoffMax(2900 * time.Millisecond)}, 2 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retry := requireRetry(t, failWith(t, c.retries, returns(io.EOF), append(c.options, auto)...))
			require.Equal(t, c.want, retry.Countdown)
			require.Equal(t, io.EOF, retry.Cause)
		})
	}
}

// TestAutoRetryExhausted: the task fails with the handler's own error.
func TestAutoRetryExhausted(t *testing.T) {
	boom := tasks.NewPythonError("builtins", "ValueError", "boom")
	err := failWith(t, 3, returns(boom), tasks.AutoRetryFor(tasks.AnyError))
	require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded)
	require.ErrorIs(t, err, boom)
	require.Equal(t, "ValueError('boom')", tasks.ExceptionOf(err).String())

	err = failWith(t, 1, returns(boom), tasks.AutoRetryFor(tasks.AnyError), tasks.AutoRetryOptions(tasks.MaxRetriesFor(1)))
	require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded, "retry_kwargs' max_retries")
}

// TestAutoRetryLeavesManualRetries: also one whose cause matches, and one that was
// refused.
func TestAutoRetryLeavesManualRetries(t *testing.T) {
	for _, retries := range []int{0, 3} {
		r := tasks.NewRegistry()
		var manual error
		tasks.HandleArguments(r, "proj.work", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			manual = tasks.Retry(ctx, io.EOF, tasks.Countdown(time.Second))
			return nil, manual
		}, tasks.AutoRetryFor(tasks.AnyError), tasks.AutoRetryOptions(tasks.MaxRetriesFor(10)))
		_, err := lookup(t, r, "proj.work").Run(inWorker(t, retries, 3), tasks.Arguments{})
		require.Same(t, manual, err)
	}
}

// TestAutoRetryIsSeenByMiddleware, which may change it: that is how a trace goes
// on in the next run.
func TestAutoRetryIsSeenByMiddleware(t *testing.T) {
	r := tasks.NewRegistry()
	r.Use(func(_ *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
		return func(ctx context.Context, args tasks.Arguments) (any, error) {
			result, err := next(ctx, args)
			var retry *tasks.RetryError
			if errors.As(err, &retry) {
				retry.Headers = map[string]any{"sentry-trace": "1"}
			}
			return result, err
		}
	})
	tasks.HandleArguments(r, "proj.work", func(context.Context, tasks.Arguments) (any, error) { panic("ouch") },
		tasks.AutoRetryFor(tasks.AnyError))
	_, err := lookup(t, r, "proj.work").Run(inWorker(t, 0, 3), tasks.Arguments{})
	retry := requireRetry(t, err)
	require.Equal(t, map[string]any{"sentry-trace": "1"}, retry.Headers)
	require.Contains(t, tasks.Traceback(err), "TestAutoRetryIsSeenByMiddleware", "the panic's frames")
}

func TestAutoRetryOutsideWorker(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "proj.work", func(context.Context, tasks.Arguments) (any, error) { return nil, io.EOF },
		tasks.AutoRetryFor(tasks.AnyError), tasks.RetryBackoff(1))
	_, err := lookup(t, r, "proj.work").Run(t.Context(), tasks.Arguments{})
	require.Equal(t, io.EOF, err)
}

func TestAutoRetryMistakes(t *testing.T) {
	for want, option := range map[string]tasks.Option{
		"AutoRetryFor: a matcher is nil":                                              tasks.AutoRetryFor(nil),
		"DontAutoRetryFor: a matcher is nil":                                          tasks.DontAutoRetryFor(tasks.AnyError, nil),
		"RetryBackoff(-1): the factor must not be negative":                           tasks.RetryBackoff(-1),
		"RetryBackoffMax(-1s): the wait must not be negative":                         tasks.RetryBackoffMax(-time.Second),
		"AutoRetryOptions: an option is nil":                                          tasks.AutoRetryOptions(nil),
		"DefaultRetryDelay(-1s): the delay must not be negative":                      tasks.DefaultRetryDelay(-time.Second),
		"MaxRetries(-1): the number must not be negative; RetryForever sets no limit": tasks.MaxRetries(-1),
	} {
		r := tasks.NewRegistry()
		tasks.HandleArguments(r, "t", nothing, option)
		require.EqualError(t, r.Err(), `tasks: can't register "t": `+want)
	}
}
