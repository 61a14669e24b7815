package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsentry/sentry-go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

var errBusy = errors.New("the payment service is busy")

func TestSentryReportsAFinalFailureOnce(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) {
		o.Client.Environment, o.Client.Release = "test", "shop@1"
	})
	request := &tasks.Request{
		ID: "id-1", Task: "shop.pay", Queue: "payments", RootID: "root", ParentID: "parent", Retries: 2, MaxRetries: 3,
		Attempt: 1, Hostname: "celery@host", Args: []any{"4111-1111"}, Kwargs: map[string]any{"pin": "no-hex-1234"},
	}
	cause := &fs.PathError{Op: "open", Path: "ledger", Err: fs.ErrNotExist}
	failure := tasks.WithPythonClass(fmt.Errorf("charge: %w", cause), "builtins", "ValueError")
	require.Error(t, r.run(request, fails(failure)))

	sent := r.sent("event")
	require.Len(t, sent, 1)
	event := sent[0]
	require.Equal(t, "shop.pay", event.Transaction)
	require.Equal(t, "test", event.Environment)
	require.Equal(t, "shop@1", event.Release)
	require.Equal(t, map[string]string{
		"celery_task": "shop.pay", "celery_task_id": "id-1", "queue": "payments", "retries": "2",
		"root_id": "root", "parent_id": "parent",
	}, event.Tags)
	require.Equal(t, "celery@host", event.Contexts[jobContext]["hostname"])
	require.EqualValues(t, 2, event.Contexts[jobContext]["retries"])
	require.NotContains(t, event.Contexts[jobContext], "args")
	require.NotContains(t, r.server.raw.String(), "4111-1111", "arguments are not sent")
	require.NotContains(t, r.server.raw.String(), "no-hex-1234")
	require.Equal(t, []string{"{{ default }}", "shop.pay"}, event.Fingerprint)

	// The innermost first; the outermost has the class that Python sees.
	chain := make([]string, 0, len(event.Exception))
	for _, exception := range event.Exception {
		chain = append(chain, exception.Type+" "+exception.Value)
	}
	require.Equal(t, []string{
		"*errors.errorString file does not exist",
		"*fs.PathError open ledger: file does not exist",
		"*fmt.wrapError charge: open ledger: file does not exist",
		"ValueError charge: open ledger: file does not exist",
	}, chain)
	require.Equal(t, "builtins", event.Exception[3].Module)
	require.Equal(t, "celery", event.Exception[3].Mechanism.Type)
	require.False(t, *event.Exception[3].Mechanism.Handled)
	require.Equal(t, 0, *event.Exception[2].Mechanism.ParentID)
	require.Equal(t, 2, *event.Exception[0].Mechanism.ParentID)
}

func TestSentrySendsArgumentsOnRequest(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) { o.SendArgs = true })
	request := &tasks.Request{
		ID: "id", Task: "t", Args: []any{int64(1), strings.Repeat("x", 100_000)}, Kwargs: map[string]any{"pin": "1234"},
	}
	require.Error(t, r.run(request, fails(errBusy)))
	job := r.sent("event")[0].Contexts[jobContext]
	require.Contains(t, job["args"], "(1, 'xxx")
	require.LessOrEqual(t, len(job["args"].(string)), protocol.ReprLimit+10, "and bounded")
	require.Equal(t, "{'pin': '1234'}", job["kwargs"])
}

// TestSentryHidesTheArgumentThatDoesntFit: the error's text quotes it.
func TestSentryHidesTheArgumentThatDoesntFit(t *testing.T) {
	r := startReporting(t, nil)
	failure := &tasks.ArgumentError{Argument: "total", Err: errors.New("no-hex-4111 is no number")}
	r.Observe(worker.TaskFailed{Request: request(), Err: failure, Exception: tasks.ExceptionOf(failure)})
	event := r.sent("event")[0]
	require.Equal(t, "the arguments don't fit: total", event.Exception[0].Value)
	require.NotContains(t, r.server.raw.String(), "no-hex-4111")
	require.Equal(t, "id", event.Tags["celery_task_id"], "also where no handler was called")
}

func explode() { panic("ouch") }

func TestSentryShowsWhereAPanicWas(t *testing.T) {
	r := startReporting(t, nil)
	require.Error(t, r.run(request(), func(context.Context, tasks.Arguments) (any, error) { explode(); return nil, errBusy }))
	exception := r.sent("event")[0].Exception[0]
	require.Equal(t, "PanicError", exception.Type)
	require.NotNil(t, exception.Stacktrace)
	frames := exception.Stacktrace.Frames
	require.Equal(t, "explode", frames[len(frames)-1].Function, "the innermost is the last")
	require.Equal(t, "github.com/lovage-project/lovage/pkg/observe", frames[len(frames)-1].Module)
}

// tracedError carries a stack, as those of github.com/pkg/errors do.
type tracedError struct{ callers []uintptr }

func (e *tracedError) Error() string         { return "traced" }
func (e *tracedError) StackTrace() []uintptr { return e.callers }

func TestSentryShowsTheStackThatAnErrorCarries(t *testing.T) {
	r := startReporting(t, nil)
	require.Error(t, r.run(request(), fails(fmt.Errorf("outer: %w", &tracedError{callers: callersHere()}))))
	chain := r.sent("event")[0].Exception
	require.Nil(t, chain[1].Stacktrace, "no stack is made up")
	require.NotNil(t, chain[0].Stacktrace)
	require.Equal(t, "callersHere", chain[0].Stacktrace.Frames[len(chain[0].Stacktrace.Frames)-1].Function)
}

func TestSentryLeavesOut(t *testing.T) {
	exhausted := func(ctx context.Context, _ tasks.Arguments) (any, error) {
		return nil, fmt.Errorf("gave up: %w", tasks.Retry(ctx, errBusy))
	}
	quota := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}
	for name, c := range map[string]struct {
		options SentryOptions
		handler tasks.HandlerFunc
		task    []tasks.Option
		sent    int
	}{
		"nothing":            {SentryOptions{}, fails(errBusy), nil, 1},
		"success":            {SentryOptions{}, fails(nil), nil, 0},
		"expected":           {SentryOptions{}, fails(errBusy), []tasks.Option{tasks.Throws(errBusy)}, 0},
		"ignore":             {SentryOptions{}, fails(tasks.Ignore("no")), nil, 0},
		"reject":             {SentryOptions{}, fails(tasks.Reject("no", false)), nil, 0},
		"retry":              {SentryOptions{}, fails(&tasks.RetryError{Cause: errBusy}), nil, 0},
		"exhausted":          {SentryOptions{}, exhausted, nil, 1},
		"exhausted, ignored": {SentryOptions{IgnoreMaxRetries: true}, exhausted, nil, 0},
		"others stay":        {SentryOptions{IgnoreMaxRetries: true}, fails(errBusy), nil, 1},
		"class":              {SentryOptions{IgnoreErrors: []string{"ValueError"}}, fails(tasks.NewPythonError("builtins", "ValueError", "x")), nil, 0},
		"class with module":  {SentryOptions{IgnoreErrors: []string{"builtins.ValueError"}}, fails(tasks.NewPythonError("builtins", "ValueError", "x")), nil, 0},
		"another module":     {SentryOptions{IgnoreErrors: []string{"shop.ValueError"}}, fails(tasks.NewPythonError("builtins", "ValueError", "x")), nil, 1},
		"Go type":            {SentryOptions{IgnoreErrors: []string{"fs.PathError"}}, fails(fmt.Errorf("a: %w", quota)), nil, 0},
		"Go type, pointer":   {SentryOptions{IgnoreErrors: []string{"*fs.PathError"}}, fails(errors.Join(errBusy, quota)), nil, 0},
		"Go type, full":      {SentryOptions{IgnoreErrors: []string{"io/fs.PathError"}}, fails(quota), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReporting(t, func(o *SentryOptions) {
				o.IgnoreErrors, o.IgnoreMaxRetries = c.options.IgnoreErrors, c.options.IgnoreMaxRetries
			})
			request := &tasks.Request{ID: "id", Task: "t", Retries: 3, MaxRetries: 3}
			_ = r.run(request, c.handler, c.task...)
			require.Len(t, r.sent("event"), c.sent)
		})
	}
}

// TestSentryReportsTheCauseOfExhaustedRetries, so that it is the same issue as
// without retries.
func TestSentryReportsTheCauseOfExhaustedRetries(t *testing.T) {
	r := startReporting(t, nil)
	request := &tasks.Request{ID: "id", Task: "t", Retries: 3, MaxRetries: 3, Headers: map[string]any{
		causeHeader: "ConnectionError('reset')",
	}}
	cause := tasks.NewPythonError("builtins", "ConnectionError", "refused")
	_ = r.run(request, func(ctx context.Context, _ tasks.Arguments) (any, error) { return nil, tasks.Retry(ctx, cause) })
	event := r.sent("event")[0]
	require.Len(t, event.Exception, 1)
	require.Equal(t, "ConnectionError", event.Exception[0].Type)
	require.Equal(t, "refused", event.Exception[0].Value)
	require.Equal(t, "true", event.Tags["max_retries_exceeded"])
	require.Len(t, event.Breadcrumbs, 1, "the runs before are a breadcrumb")
	require.Equal(t, "celery.retry", event.Breadcrumbs[0].Category)
	require.Equal(t, "retry 3 of t", event.Breadcrumbs[0].Message)
	require.Equal(t, "ConnectionError('reset')", event.Breadcrumbs[0].Data["cause"])
}

func TestSentryBeforeSend(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) {
		o.Client.BeforeSend = func(event *sentry.Event, hint *sentry.EventHint) *sentry.Event {
			if errors.Is(hint.OriginalException, errBusy) {
				return nil
			}
			event.Tags["team"] = "payments"
			return event
		}
	})
	_ = r.run(&tasks.Request{ID: "1", Task: "t"}, fails(fmt.Errorf("charge: %w", errBusy)))
	_ = r.run(&tasks.Request{ID: "2", Task: "t"}, fails(fs.ErrExist))
	sent := r.sent("event")
	require.Len(t, sent, 1)
	require.Equal(t, "payments", sent[0].Tags["team"])
}

// TestT64 is one hub per task: what concurrent runs set doesn't mix, retries are not
// reported, each final failure is, once, and what waits at the end is sent.
func TestT64(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) { o.Client.EnableTracing, o.Client.TracesSampleRate = true, 1 })
	const runs = 64
	handler := func(ctx context.Context, args tasks.Arguments) (any, error) {
		n := args.Args[0].(string)
		hub := sentry.GetHubFromContext(ctx)
		hub.Scope().SetUser(sentry.User{ID: n})
		hub.Scope().SetTag("n", n)
		hub.AddBreadcrumb(&sentry.Breadcrumb{Category: "test", Message: n}, nil)
		if strings.HasSuffix(n, "3") {
			return nil, tasks.Retry(ctx, errors.New("try "+n))
		}
		return nil, errors.New("boom " + n)
	}
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			n := strconv.Itoa(i)
			_ = r.run(&tasks.Request{ID: n, Task: "t", Args: []any{n}, MaxRetries: 3}, handler)
		})
	}
	all.Wait()
	sent := r.sent("event")
	seen := map[string]bool{}
	for _, event := range sent {
		n := event.Tags["celery_task_id"]
		require.False(t, seen[n], "%s is reported twice", n)
		seen[n] = true
		require.Equal(t, "boom "+n, event.Exception[0].Value)
		require.Equal(t, n, event.Tags["n"])
		require.Equal(t, n, event.User["id"])
		require.Len(t, event.Breadcrumbs, 1)
		require.Equal(t, n, event.Breadcrumbs[0].Message)
	}
	require.Len(t, seen, runs-7, "3, 13, 23, 33, 43, 53 and 63 are retried")
	transactions := len(r.server.events(t, "transaction"))
	require.Equal(t, runs, transactions)
	r.runs.Range(func(any, any) bool { t.Fatal("a run is left"); return false })
}

// TestSentryIsSilentAboutTheBroker: an outage makes thousands of these.
func TestSentryIsSilentAboutTheBroker(t *testing.T) {
	r := startReporting(t, nil)
	for range 1000 {
		r.Observe(worker.FetchFailed{Queue: "q", Err: errBusy})
		r.Observe(worker.SettleFailed{Queue: "q", Err: errBusy})
		r.Observe(worker.StoreFailed{ID: "id", Err: errBusy})
		r.Observe(worker.PublishFailed{ID: "id", Err: errBusy})
	}
	require.Empty(t, r.sent("event"))
}

func TestSentryRefusesABadDSNWithoutRepeatingIt(t *testing.T) {
	_, err := NewSentry(SentryOptions{Client: sentry.ClientOptions{Dsn: "http://secret@"}})
	require.ErrorIs(t, err, ErrSentryDSN)
	require.NotContains(t, err.Error(), "secret")
}

func TestSentryTellsWhatItCouldNotSend(t *testing.T) {
	r := startReporting(t, nil)
	r.server.answer = http.StatusInternalServerError
	_ = r.run(request(), fails(errBusy))
	var unsent *SentryUnsentError
	require.ErrorAs(t, r.Close(10*time.Second), &unsent)
	require.EqualValues(t, 1, unsent.Failed)
	require.False(t, unsent.TimedOut)
	require.Contains(t, unsent.Error(), "requests that failed: 1")
}

// TestSentryCloseIsBounded: a server that takes the request and never answers must
// not hold up the end. The SDK alone would wait for it half a minute.
func TestSentryCloseIsBounded(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	server := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-release
	})
	r := startReporting(t, nil)
	r.server.Config.Handler = server
	defer close(release)
	_ = r.run(request(), fails(errBusy))
	<-arrived
	closed := make(chan error, 1)
	go func() { closed <- r.Close(time.Millisecond) }()
	select {
	case err := <-closed:
		var unsent *SentryUnsentError
		require.ErrorAs(t, err, &unsent)
		require.True(t, unsent.TimedOut)
		require.Contains(t, err.Error(), "still waiting after 1ms")
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for the server")
	}
}

// TestSentryGoesOnWithoutARun: code of the user that panics costs the trace, not the
// task.
func TestSentryGoesOnWithoutARun(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) {
		o.Client.EnableTracing = true
		o.Client.TracesSampler = func(sentry.SamplingContext) float64 { panic("sampler") }
	})
	require.ErrorIs(t, r.run(request(), fails(errBusy)), errBusy)
	require.Len(t, r.sent("event"), 1)
}
