package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// harness is a worker between fakes.
type harness struct {
	t        *testing.T
	journal  *journal
	broker   *fakeBroker
	backend  *fakeBackend
	recorder *recorder
	registry *tasks.Registry
	options  Options
	worker   *Worker
}

// inBubble runs test with a harness whose worker is not started yet. Time in the
// bubble passes only while everybody waits, so nothing here sleeps for real.
func inBubble(t *testing.T, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		defer func() { // also when a require has ended the test
			if h.worker != nil {
				require.NoError(t, h.worker.Stop(context.Background()))
			}
		}()
		test(h)
	})
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	j := &journal{}
	h := &harness{
		t: t, journal: j, broker: newFakeBroker(j), backend: newFakeBackend(j), recorder: &recorder{journal: j},
		registry: tasks.NewRegistry(), options: DefaultOptions(),
	}
	h.options.Hostname = "celery@test"
	h.options.Concurrency = 2
	return h
}

// handle registers a handler that takes what comes.
func (h *harness) handle(name string, fn tasks.HandlerFunc, options ...tasks.Option) {
	tasks.HandleArguments(h.registry, name, fn, options...)
}

func (h *harness) start() {
	h.t.Helper()
	w, err := New(h.options, h.registry, h.broker, h.backend, h.recorder)
	require.NoError(h.t, err)
	require.NoError(h.t, w.Start(context.Background()))
	h.worker = w
}

// send puts a message on the queue "celery" and returns its id.
func (h *harness) send(message protocol.Message) string {
	h.t.Helper()
	h.broker.put("celery", &fakeMessage{body: encode(h.t, &message)})
	return message.ID
}

// encode fills in what a producer always sends.
func encode(tb testing.TB, message *protocol.Message) []byte {
	tb.Helper()
	if message.ID == "" {
		message.ID = uuid.NewString()
	}
	if message.Args == nil {
		message.Args = []any{}
	}
	if message.Kwargs == nil {
		message.Kwargs = map[string]any{}
	}
	if message.Queue == "" {
		message.Queue = "celery"
	}
	envelope, err := protocol.EncodeMessage(message, protocol.EncodeOptions{Protocol: protocol.Protocol2, Compression: message.Compression})
	require.NoError(tb, err)
	envelope.Properties.DeliveryTag = uuid.NewString()
	body, err := envelope.Encode()
	require.NoError(tb, err)
	return body
}

// decode is the message in a published body.
func (h *harness) decode(body []byte) *protocol.Message {
	h.t.Helper()
	envelope, err := protocol.DecodeEnvelope(body, protocol.DefaultLimits())
	require.NoError(h.t, err)
	accept, err := protocol.NewAccept([]string{"json", "msgpack", "yaml"})
	require.NoError(h.t, err)
	message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{
		Accept: accept, Limits: protocol.DefaultLimits(), Known: func(string) bool { return true },
	})
	require.NoError(h.t, err)
	return message
}

// settled waits until nothing moves any more and returns what happened, without
// the fetcher's own requests.
func (h *harness) settled() []string {
	synctest.Wait()
	var lines []string
	for _, line := range h.journal.all() {
		if line != "receive celery" {
			lines = append(lines, line)
		}
	}
	return lines
}

// only is the one state stored for a task.
func (h *harness) only(id string) protocol.Meta {
	h.t.Helper()
	states := h.backend.states(id)
	require.Len(h.t, states, 1)
	return states[0]
}

// raise makes most at least n, also where others do so at the same time.
func raise(most *atomic.Int64, n int64) {
	for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
	}
}

// elapse lets the bubble's time pass.
func elapse(d time.Duration) { <-time.After(d) }
