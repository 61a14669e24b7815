package worker

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// livePatience bounds what should happen soon, on a busy machine too.
const livePatience = 3 * time.Minute

// live is a broker with what a client needs to send and to look at everything.
type live struct {
	address string
	client  *kubemq.Client
	backend *resultskubemq.Backend
}

// liveBrokers are the brokers to test against.
func liveBrokers() map[string]broker.Config {
	return map[string]broker.Config{"embedded": {}, "quirks of 2023": {Quirks: broker.AllQuirks()}}
}

func startLive(tb testing.TB, config broker.Config) *live {
	tb.Helper()
	config.Listen = "127.0.0.1:0"
	embedded, err := broker.New(config)
	require.NoError(tb, err)
	require.NoError(tb, embedded.Start(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, embedded.Stop()) })
	l := &live{address: embedded.Addr().String()}
	l.client, err = kubemq.NewClient(kubemq.Config{Address: l.address})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.client.Close()) })
	l.backend = l.results(tb)
	return l
}

// transport opens one that is stopped at the end of the test.
func (l *live) transport(tb testing.TB) *kubemq.Transport {
	tb.Helper()
	connection, err := kubemq.New(kubemq.Config{Address: l.address})
	require.NoError(tb, err)
	require.NoError(tb, connection.Start(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, connection.Stop()) })
	return connection
}

func (l *live) results(tb testing.TB) *resultskubemq.Backend {
	tb.Helper()
	backend, err := resultskubemq.New(resultskubemq.Config{Connection: kubemq.Config{Address: l.address}})
	require.NoError(tb, err)
	require.NoError(tb, backend.Start(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, backend.Stop()) })
	return backend
}

// send publishes a message as a Python client does, and returns what was sent.
func (l *live) send(tb testing.TB, publisher transport.Publisher, message protocol.Message) transport.Outgoing {
	tb.Helper()
	outgoing := encodeWire(tb, message)
	require.NoError(tb, publisher.Publish(tb.Context(), message.Queue, outgoing))
	return outgoing
}

// encodeWire is a message without arguments as it goes to a broker.
func encodeWire(tb testing.TB, message protocol.Message) transport.Outgoing {
	tb.Helper()
	message.Kwargs, message.Args = map[string]any{}, []any{}
	envelope, err := protocol.EncodeMessage(&message, protocol.EncodeOptions{Protocol: protocol.Protocol2})
	require.NoError(tb, err)
	body, headers, err := envelope.Wire(uuid.NewString())
	require.NoError(tb, err)
	return transport.Outgoing{Body: body, Headers: headers, Priority: 3}
}

// depths are the channels that hold messages.
func (l *live) depths(t *testing.T) map[string]int64 {
	t.Helper()
	queues, err := l.client.Queues(t.Context())
	require.NoError(t, err)
	found := map[string]int64{}
	for _, q := range queues {
		if q.Depth > 0 {
			found[q.Name] = q.Depth
		}
	}
	return found
}

// letters are the dead letters of a queue, by task.
func (l *live) letters(t *testing.T, queue string, most int) map[string]kubemq.Letter {
	t.Helper()
	found := map[string]kubemq.Letter{}
	messages, err := l.client.Peek(t.Context(), queue, most, time.Second)
	require.NoError(t, err)
	for _, message := range messages {
		letter := kubemq.LetterOf(message)
		found[letter.Task] = letter
	}
	return found
}

// history is an observer that keeps the events of each task, under Celery's names, as
// the captured vectors write them.
type history struct {
	mu     sync.Mutex
	events map[string][]string
}

func (h *history) Observe(event Event) {
	switch e := event.(type) {
	case TaskSucceeded:
		h.add(e.Request.ID, "task-succeeded")
	case TaskFailed:
		h.add(e.Request.ID, "task-failed")
	case TaskRetried:
		h.add(e.Request.ID, "task-retried")
	case TaskRejected:
		h.add(e.Request.ID, map[bool]string{true: "task-rejected(requeue=True)", false: "task-rejected(requeue=False)"}[e.Requeue])
	case TaskRevoked:
		h.add(e.Request.ID, map[bool]string{true: "task-revoked(term=False,sig=None,exp=True)", false: "task-revoked"}[e.Expired])
	case TaskIgnored: // Celery tells nobody
		h.add(e.Request.ID, "ignored")
	case TaskCancelled:
		h.add(e.Request.ID, "task-cancelled")
	case DeadLettered:
		h.add(e.ID, "dead-letter "+e.Reason)
	}
}

func (h *history) add(id, event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events == nil {
		h.events = map[string][]string{}
	}
	h.events[id] = append(h.events[id], event)
}

// all is what was told so far.
func (h *history) all() map[string][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.events)
}

// startedAt starts a worker that is stopped at the end of the test, if it is not
// before.
func startedAt(tb testing.TB, w *Worker) {
	tb.Helper()
	require.NoError(tb, w.Start(tb.Context()))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), livePatience)
		defer cancel()
		require.NoError(tb, w.Stop(ctx))
	})
}
