package observe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsentry/sentry-go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// sentryServer takes what the real SDK sends.
type sentryServer struct {
	*httptest.Server
	// answer is the status of its answers; 0 = 200.
	answer int

	mu    sync.Mutex
	items []sentryItem
	raw   bytes.Buffer
}

// sentryItem is one item of an envelope.
type sentryItem struct {
	kind    string
	payload []byte
}

func newSentryServer(t *testing.T) *sentryServer {
	t.Helper()
	s := &sentryServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sentryServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(request.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(body.Bytes())
	s.items = append(s.items, parseEnvelope(body.Bytes())...)
	if s.answer != 0 {
		w.WriteHeader(s.answer)
	}
}

// parseEnvelope reads lines: a header, then for each item a header and a payload.
func parseEnvelope(body []byte) []sentryItem {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 16<<20)
	lines.Scan()
	var items []sentryItem
	for lines.Scan() {
		var header struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(lines.Bytes(), &header) != nil || !lines.Scan() {
			break
		}
		items = append(items, sentryItem{header.Type, bytes.Clone(lines.Bytes())})
	}
	return items
}

// sentryFrame, sentryException and sentryEvent are the parts of an event that the
// tests look at.
type (
	sentryFrame struct {
		Function string `json:"function"`
		Module   string `json:"module"`
	}
	sentryException struct {
		Type       string `json:"type"`
		Module     string `json:"module"`
		Value      string `json:"value"`
		Stacktrace *struct {
			Frames []sentryFrame `json:"frames"`
		} `json:"stacktrace"`
		Mechanism *struct {
			Type        string `json:"type"`
			Handled     *bool  `json:"handled"`
			ExceptionID int    `json:"exception_id"`
			ParentID    *int   `json:"parent_id"`
		} `json:"mechanism"`
	}
	sentrySpan struct {
		TraceID      string         `json:"trace_id"`
		SpanID       string         `json:"span_id"`
		ParentSpanID string         `json:"parent_span_id"`
		Op           string         `json:"op"`
		Status       string         `json:"status"`
		Data         map[string]any `json:"data"`
	}
	sentryEvent struct {
		EventID     string                    `json:"event_id"`
		Transaction string                    `json:"transaction"`
		Environment string                    `json:"environment"`
		Release     string                    `json:"release"`
		Exception   []sentryException         `json:"exception"`
		Tags        map[string]string         `json:"tags"`
		User        map[string]any            `json:"user"`
		Contexts    map[string]map[string]any `json:"contexts"`
		Breadcrumbs []struct {
			Category string         `json:"category"`
			Message  string         `json:"message"`
			Data     map[string]any `json:"data"`
		} `json:"breadcrumbs"`
		Spans       []sentrySpan `json:"spans"`
		Fingerprint []string     `json:"fingerprint"`
	}
)

// events are the items of a kind, "event" or "transaction".
func (s *sentryServer) events(t *testing.T, kind string) []sentryEvent {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []sentryEvent
	for _, item := range s.items {
		if item.kind == kind {
			var event sentryEvent
			require.NoError(t, json.Unmarshal(item.payload, &event), "%s", item.payload)
			found = append(found, event)
		}
	}
	return found
}

// trace is the trace context of an event.
func (e *sentryEvent) trace(name string) string {
	text, _ := e.Contexts["trace"][name].(string)
	return text
}

// dsn is the server's address as the SDK takes it.
func (s *sentryServer) dsn() string { return strings.Replace(s.URL, "://", "://public@", 1) + "/1" }

// reporting is an observer that sends to a server of the test.
type reporting struct {
	*Sentry
	t      *testing.T
	server *sentryServer
}

func startReporting(t *testing.T, change func(*SentryOptions)) *reporting {
	t.Helper()
	server := newSentryServer(t)
	options := SentryOptions{Client: sentry.ClientOptions{Dsn: server.dsn()}}
	if change != nil {
		change(&options)
	}
	reporter, err := NewSentry(options)
	require.NoError(t, err)
	return &reporting{Sentry: reporter, t: t, server: server}
}

// run does with a handler what the engine does, and returns its error.
func (r *reporting) run(request *tasks.Request, handler tasks.HandlerFunc, options ...tasks.Option) error {
	registry := tasks.NewRegistry()
	tasks.HandleArguments(registry, request.Task, handler, options...)
	require.NoError(r.t, registry.Err())
	task, _ := registry.Lookup(request.Task)
	result, err := r.Wrap(task.Run)(tasks.WithRequest(context.Background(), request), tasks.Arguments{Args: request.Args})
	outcome, _ := tasks.OutcomeOf(err)
	switch ended := outcome.(type) {
	case *tasks.RetryError:
		r.Observe(worker.TaskRetried{Request: request, Cause: ended.Cause, Delay: ended.Countdown})
	case *tasks.IgnoreError:
		r.Observe(worker.TaskIgnored{Request: request})
	default:
		if err == nil {
			r.Observe(worker.TaskSucceeded{Request: request, Result: result})
			break
		}
		r.Observe(worker.TaskFailed{
			Request: request, Err: err, Exception: tasks.ExceptionOf(err), Expected: task.Options().Expected(err),
		})
	}
	r.Observe(worker.TaskEnded{Request: request})
	return err
}

// sent ends the client and returns what arrived.
func (r *reporting) sent(kind string) []sentryEvent {
	r.t.Helper()
	require.NoError(r.t, r.Close(10*time.Second))
	return r.server.events(r.t, kind)
}

func fails(err error) tasks.HandlerFunc {
	return func(context.Context, tasks.Arguments) (any, error) { return nil, err }
}

func callersHere() []uintptr {
	callers := make([]uintptr, 8)
	return callers[:runtime.Callers(1, callers)]
}
