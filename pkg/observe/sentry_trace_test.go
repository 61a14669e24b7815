package observe

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/getsentry/sentry-go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

const (
	pythonTrace   = "52cf03bec15a4004b343bf40b75d93b4"
	pythonSpan    = "90b31208c0740b14"
	pythonBaggage = "sentry-trace_id=52cf03bec15a4004b343bf40b75d93b4,sentry-sample_rand=0.550697," +
		"sentry-environment=test,sentry-release=shop%401,sentry-public_key=pk,sentry-transaction=producer," +
		"sentry-sample_rate=1.0,sentry-sampled=true"
)

// fromPython is a request as Python's SDK makes it: each header twice, and custom
// ones copied into "headers" (docs/protocol.md, "Sentry's headers").
func fromPython(sampled string) *tasks.Request {
	headers := map[string]any{
		traceHeader: pythonTrace + "-" + pythonSpan + sampled, baggageHeader: pythonBaggage,
		enqueuedHeader: 1795984690.3631392, "mine": int64(1),
	}
	outer := maps.Clone(headers)
	outer["headers"] = headers
	return &tasks.Request{ID: "id", Task: "shop.pay", Queue: "q", MaxRetries: tasks.RetryLimitless, Headers: outer}
}

func traced(o *SentryOptions) { o.Client.EnableTracing = true }

func retries(ctx context.Context, _ tasks.Arguments) (any, error) {
	return nil, tasks.Retry(ctx, errBusy)
}

func TestSentryContinuesThePythonTrace(t *testing.T) {
	r := startReporting(t, traced)
	require.Error(t, r.run(fromPython("-1"), fails(errBusy)))

	transactions := r.sent("transaction")
	require.Len(t, transactions, 1)
	transaction := transactions[0]
	require.Equal(t, "shop.pay", transaction.Transaction)
	require.Equal(t, pythonTrace, transaction.trace("trace_id"))
	require.Equal(t, pythonSpan, transaction.trace("parent_span_id"))
	require.Equal(t, "queue.task.celery", transaction.trace("op"))
	require.Equal(t, "internal_error", transaction.trace("status"))
	require.Len(t, transaction.Spans, 1)
	process := transaction.Spans[0]
	require.Equal(t, "queue.process", process.Op)
	require.Equal(t, transaction.trace("span_id"), process.ParentSpanID)
	require.Equal(t, "id", process.Data["messaging.message.id"])
	require.Equal(t, "q", process.Data["messaging.destination.name"])
	require.Greater(t, process.Data["messaging.message.receive.latency"], -1e15)

	event := r.server.events(t, "event")[0]
	require.Equal(t, pythonTrace, event.trace("trace_id"), "the failure is in the same trace")
	require.Equal(t, process.SpanID, event.trace("span_id"))
}

// TestSentryKeepsTheTraceWithoutTransactions: failures belong to the trace, and the
// headers of a retry stay as they came.
func TestSentryKeepsTheTraceWithoutTransactions(t *testing.T) {
	r := startReporting(t, nil)
	_ = r.run(fromPython("-1"), fails(errBusy))
	var retry *tasks.RetryError
	require.ErrorAs(t, r.run(fromPython("-1"), retries), &retry)
	require.Equal(t, map[string]any{causeHeader: "Exception('the payment service is busy')"}, retry.Headers)
	event := r.sent("event")[0]
	require.Equal(t, pythonTrace, event.trace("trace_id"))
	require.Equal(t, pythonSpan, event.trace("parent_span_id"))
	require.Empty(t, r.server.events(t, "transaction"))
}

func TestSentryStatus(t *testing.T) {
	for status, handler := range map[string]tasks.HandlerFunc{
		"ok":             func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil },
		"internal_error": fails(errBusy),
		"aborted":        retries,
	} {
		t.Run(status, func(t *testing.T) {
			r := startReporting(t, traced)
			_ = r.run(fromPython("-1"), handler)
			require.Equal(t, status, r.sent("transaction")[0].trace("status"))
		})
	}
	for name, c := range map[string]struct {
		event  func(*tasks.Request) worker.Event
		status string
	}{
		"ignored":   {func(r *tasks.Request) worker.Event { return worker.TaskIgnored{Request: r} }, "aborted"},
		"rejected":  {func(r *tasks.Request) worker.Event { return worker.TaskRejected{Request: r} }, "aborted"},
		"cancelled": {func(r *tasks.Request) worker.Event { return worker.TaskCancelled{Request: r} }, "cancelled"},
		"revoked":   {func(r *tasks.Request) worker.Event { return worker.TaskRevoked{Request: r} }, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReporting(t, traced)
			request := fromPython("-1")
			_, _ = r.Wrap(fails(nil))(tasks.WithRequest(t.Context(), request), tasks.Arguments{})
			r.Observe(c.event(request))
			r.Observe(worker.TaskEnded{Request: request})
			require.Equal(t, c.status, r.sent("transaction")[0].trace("status"))
		})
	}
}

func TestSentryFollowsTheSamplingOfTheProducer(t *testing.T) {
	r := startReporting(t, func(o *SentryOptions) { traced(o); o.Client.TracesSampleRate = 1 })
	_ = r.run(fromPython("-0"), fails(nil))
	require.Empty(t, r.sent("transaction"))
}

// TestSentryReplacesTheHeadersOfARetry: the next run is a child of this one, and a
// hundred retries make the message no longer (T-44).
func TestSentryReplacesTheHeadersOfARetry(t *testing.T) {
	r := startReporting(t, traced)
	request := fromPython("-1")
	theirs := ",vendor=a,other=b;c=d"
	request.Headers[baggageHeader] = pythonBaggage + theirs
	request.Headers["headers"].(map[string]any)[baggageHeader] = pythonBaggage + theirs
	var length int
	for i := range 100 {
		var retry *tasks.RetryError
		require.ErrorAs(t, r.run(request, retries), &retry)
		inner, ok := retry.Headers["headers"].(map[string]any)
		require.True(t, ok)
		trace, _ := retry.Headers[traceHeader].(string)
		require.Equal(t, trace, inner[traceHeader])
		require.Equal(t, retry.Headers[baggageHeader], inner[baggageHeader])
		require.Equal(t, int64(1), inner["mine"], "a Python task sees the caller's headers there")
		require.True(t, strings.HasPrefix(trace, pythonTrace+"-") && strings.HasSuffix(trace, "-1"), trace)
		require.NotContains(t, trace, pythonSpan)
		baggage, _ := retry.Headers[baggageHeader].(string)
		require.Contains(t, baggage, "sentry-sample_rand=0.550697")
		require.True(t, strings.HasSuffix(baggage, theirs), baggage)
		if i == 0 {
			length = len(baggage)
		}
		require.Len(t, baggage, length)

		headers := maps.Clone(request.Headers) // what the engine does
		maps.Copy(headers, retry.Headers)
		require.Len(t, headers, 6, "trace, baggage, time, cause, mine and headers")
		require.Len(t, inner, 5-1+boolInt(i > 0), "the cause is copied once")
		next := *request
		next.Headers, next.Retries = headers, request.Retries+1
		request = &next
	}
	transactions := r.sent("transaction")
	require.NotEmpty(t, transactions)
	for _, transaction := range transactions {
		require.Equal(t, pythonTrace, transaction.trace("trace_id"))
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSentryKeepsHeadersOfTheHandler that a retry carries.
func TestSentryKeepsHeadersOfTheHandler(t *testing.T) {
	r := startReporting(t, traced)
	given := &tasks.RetryError{Headers: map[string]any{"x": "y", traceHeader: "old", "headers": map[string]any{"x": "y"}}}
	var retry *tasks.RetryError
	require.ErrorAs(t, r.run(fromPython("-1"), fails(given)), &retry)
	require.Equal(t, "y", retry.Headers["x"])
	require.NotEqual(t, "old", retry.Headers[traceHeader])
	inner := retry.Headers["headers"].(map[string]any)
	require.Equal(t, "y", inner["x"])
	require.NotContains(t, inner, "headers")
	require.NoError(t, r.Close(10e9))
}

func TestTraceOf(t *testing.T) {
	valid := pythonTrace + "-" + pythonSpan
	for name, c := range map[string]struct {
		headers        map[string]any
		trace, baggage string
	}{
		"none":             {nil, "", ""},
		"outer":            {map[string]any{traceHeader: valid, baggageHeader: "a=b"}, valid, "a=b"},
		"the inner counts": {map[string]any{traceHeader: "x", "headers": map[string]any{traceHeader: valid}}, valid, ""},
		"headers is text":  {map[string]any{"headers": "x", traceHeader: valid}, valid, ""},
		"not a text":       {map[string]any{traceHeader: int64(1), baggageHeader: []any{}}, "", ""},
		"malformed":        {map[string]any{traceHeader: valid + "-2", baggageHeader: "a=b"}, "", ""},
		"bad baggage":      {map[string]any{traceHeader: valid, baggageHeader: "=;="}, valid, ""},
		"endless baggage":  {map[string]any{traceHeader: valid, baggageHeader: "a=" + strings.Repeat("b", 1<<20)}, valid, ""},
	} {
		t.Run(name, func(t *testing.T) {
			trace, baggage := traceOf(c.headers)
			require.Equal(t, c.trace, trace)
			require.Equal(t, c.baggage, baggage)
		})
	}
}

func TestMergeBaggage(t *testing.T) {
	for name, c := range map[string]struct{ own, received, merged string }{
		"nothing":      {"", "", ""},
		"own":          {"sentry-a=1", "", "sentry-a=1"},
		"replaced":     {"sentry-a=1", "sentry-a=0,sentry-b=0", "sentry-a=1"},
		"theirs stay":  {"sentry-a=1", "x=1;p=2, sentry-a=0,y=2", "sentry-a=1,x=1;p=2,y=2"},
		"only theirs":  {"", "x=1", "x=1"},
		"over the end": {"sentry-a=1", "x=" + strings.Repeat("y", maxBaggage), "sentry-a=1"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.merged, mergeBaggage(c.own, c.received)) })
	}
}

// FuzzTraceOf: headers come from whoever can write to the queue.
func FuzzTraceOf(f *testing.F) {
	f.Add(pythonTrace+"-"+pythonSpan+"-1", pythonBaggage)
	f.Add("", "=;,")
	f.Fuzz(func(t *testing.T, trace, baggage string) {
		headers := map[string]any{traceHeader: trace, baggageHeader: baggage}
		gotTrace, gotBaggage := traceOf(headers)
		if gotTrace != "" {
			_, valid := sentry.ParseTraceParentContext([]byte(gotTrace))
			require.True(t, valid)
		}
		require.LessOrEqual(t, len(mergeBaggage("", gotBaggage)), maxBaggage)
		_, err := sentry.PropagationContextFromHeaders(gotTrace, gotBaggage)
		require.NoError(t, err)
	})
}
