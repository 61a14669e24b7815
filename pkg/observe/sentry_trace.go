package observe

import (
	"maps"
	"strings"
	"time"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// The headers of Python's SDK (docs/protocol.md, "Sentry's headers"), and our own
// for the cause of the last retry.
const (
	traceHeader    = sentry.SentryTraceHeader
	baggageHeader  = sentry.SentryBaggageHeader
	enqueuedHeader = "sentry-task-enqueued-time"
	causeHeader    = "lovage-retry-cause"
)

const (
	// maxBaggage is W3C's limit, which the SDK keeps too.
	maxBaggage = 8192
	// maxCause bounds the cause of a retry that travels with the message, in bytes.
	maxCause = 200
	// maxText bounds a text of an error or a breadcrumb, in bytes.
	maxText = 4096
)

// innerHeader reads a header of Python's SDK. The SDK writes each twice and reads
// the one in the header "headers".
func innerHeader(headers map[string]any, name string) any {
	if inner, ok := headers["headers"].(map[string]any); ok {
		if value, found := inner[name]; found {
			return value
		}
	}
	return headers[name]
}

// traceOf reads the trace that a message belongs to; both are "" where there is
// none that can be read.
func traceOf(headers map[string]any) (trace, baggage string) {
	trace, _ = innerHeader(headers, traceHeader).(string)
	if _, valid := sentry.ParseTraceParentContext([]byte(trace)); !valid {
		return "", ""
	}
	baggage, _ = innerHeader(headers, baggageHeader).(string)
	if _, err := sentry.DynamicSamplingContextFromHeader([]byte(baggage)); err != nil {
		return trace, ""
	}
	return trace, baggage
}

// continueTrace makes what the hub reports part of the message's trace.
func continueTrace(hub *sentry.Hub, headers map[string]any) sentry.SpanOption {
	trace, baggage := traceOf(headers)
	return sentry.ContinueTrace(hub, trace, baggage)
}

// latencyOf is how long the message was on its way, in milliseconds, as the
// producer's clock and ours say.
func latencyOf(headers map[string]any, now time.Time) (milliseconds float64, known bool) {
	seconds, known := innerHeader(headers, enqueuedHeader).(float64)
	return epoch(now)*1000 - seconds*1000, known
}

// epoch is Python's time.time().
func epoch(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// carryOn makes the next run part of the trace, as a child of this one, where the
// task is retried, and tells it the cause. Headers are replaced: what is appended to
// grows with each retry.
func (r *sentryRun) carryOn(err error) {
	outcome, _ := tasks.OutcomeOf(err)
	retry, retried := outcome.(*tasks.RetryError)
	if !retried {
		return
	}
	headers := maps.Clone(retry.Headers)
	if headers == nil {
		headers = map[string]any{}
	}
	if retry.Cause != nil {
		headers[causeHeader] = cut(tasks.ExceptionOf(retry.Cause).String(), maxCause)
	}
	if r.process != nil {
		trace := r.traceHeaders()
		maps.Copy(headers, trace)
		headers["headers"] = innerHeaders(headers, r.request.Headers, trace)
	}
	retry.Headers = headers
}

// traceHeaders are those of a message that this run publishes.
func (r *sentryRun) traceHeaders() map[string]any {
	headers := map[string]any{traceHeader: r.process.ToSentryTrace(), enqueuedHeader: epoch(time.Now())}
	_, received := traceOf(r.request.Headers)
	// From the transaction: a child's would be made anew, without what was received.
	if baggage := mergeBaggage(r.transaction.ToBaggage(), received); baggage != "" {
		headers[baggageHeader] = baggage
	}
	return headers
}

// innerHeaders is the header "headers" of a retry. Where there is one it is all
// that a Python task sees in self.request.headers, so it gets what was received too.
func innerHeaders(headers, received, trace map[string]any) map[string]any {
	inner := maps.Clone(received)
	if inner == nil {
		inner = map[string]any{}
	}
	for _, given := range []map[string]any{received, headers} {
		if nested, ok := given["headers"].(map[string]any); ok {
			maps.Copy(inner, nested)
		}
	}
	maps.Copy(inner, trace)
	delete(inner, "headers")
	return inner
}

// mergeBaggage is Sentry's own part of the baggage with what others have put into
// the one that was received.
func mergeBaggage(own, received string) string {
	members := []string{}
	if own != "" {
		members = append(members, own)
	}
	for member := range strings.SplitSeq(received, ",") {
		member = strings.TrimSpace(member)
		if member != "" && !strings.HasPrefix(member, "sentry-") {
			members = append(members, member)
		}
	}
	if merged := strings.Join(members, ","); len(merged) <= maxBaggage {
		return merged
	}
	return own
}
