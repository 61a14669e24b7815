package observe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/getsentry/sentry-go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/worker"
)

// captured is a Sentry transport that keeps what it would send.
type captured struct {
	mu     sync.Mutex
	events []*sentry.Event
}

func (*captured) Configure(sentry.ClientOptions)        {}
func (*captured) Flush(time.Duration) bool              { return true }
func (*captured) FlushWithContext(context.Context) bool { return true }
func (*captured) Close()                                {}
func (c *captured) SendEvent(event *sentry.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
}

func TestSentryReportsFinalUnexpectedFailuresOnly(t *testing.T) {
	sent := &captured{}
	reporter, err := NewSentry(sentry.ClientOptions{Dsn: "http://key@localhost/1", Transport: sent})
	require.NoError(t, err)
	failed := worker.TaskFailed{
		Request: request(), Err: errors.New("boom"),
		Exception: protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{"boom"}},
	}
	var all sync.WaitGroup
	for range 8 { // one hub, many goroutines: each event has its own clone
		all.Go(func() { reporter.Observe(failed) })
	}
	all.Wait()
	failed.Expected = true
	reporter.Observe(failed)
	reporter.Observe(worker.TaskRetried{Request: request(), Cause: errors.New("boom")})
	require.True(t, reporter.Close(time.Second))

	require.Len(t, sent.events, 8)
	event := sent.events[0]
	require.Equal(t, "proj.add", event.Tags["celery_task"])
	require.Equal(t, "id", event.Tags["celery_task_id"])
	require.Equal(t, "ValueError", event.Exception[0].Type)
	require.Equal(t, "boom", event.Exception[0].Value)
}

func TestSentryRefusesABadDSNWithoutRepeatingIt(t *testing.T) {
	_, err := NewSentry(sentry.ClientOptions{Dsn: "http://secret@"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
