package gocelery_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	upstream "github.com/gocelery/gocelery"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	lovage "github.com/lovage-project/lovage/pkg/tasks/gocelery"
	"github.com/lovage-project/lovage/pkg/transport"
)

// publisher keeps what is published.
type publisher struct {
	queue    string
	outgoing []transport.Outgoing
	fail     error
}

func (p *publisher) Publish(ctx context.Context, queue string, message transport.Outgoing) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("no deadline")
	}
	p.queue, p.outgoing = queue, append(p.outgoing, message)
	return p.fail
}

// memory is a result backend in memory.
type memory struct {
	mu    sync.Mutex
	metas map[string]protocol.Meta
}

func (m *memory) Store(_ context.Context, meta protocol.Meta, _ results.StoreOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.metas == nil {
		m.metas = map[string]protocol.Meta{}
	}
	m.metas[meta.TaskID] = meta
	return nil
}

func (m *memory) Fetch(_ context.Context, taskID string) (protocol.Meta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meta, ok := m.metas[taskID]
	if !ok {
		return protocol.Meta{}, results.ErrNotFound
	}
	return meta, nil
}

func (m *memory) Forget(context.Context, string) error { return nil }
func (m *memory) Start(context.Context) error          { return nil }
func (m *memory) Stop() error                          { return nil }

func newClient(t *testing.T, broker *lovage.Broker, backend *lovage.Backend) *upstream.CeleryClient {
	t.Helper()
	client, err := upstream.NewCeleryClient(broker, backend, 1)
	require.NoError(t, err)
	return client
}

func decode(t *testing.T, outgoing transport.Outgoing) (*protocol.Envelope, *protocol.Message) {
	t.Helper()
	require.JSONEq(t, "{}", string(outgoing.Headers))
	envelope, err := protocol.DecodeEnvelope(outgoing.Body, protocol.DefaultLimits())
	require.NoError(t, err)
	accept, err := protocol.NewAccept([]string{"json"})
	require.NoError(t, err)
	message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Accept: accept, Limits: protocol.DefaultLimits()})
	require.NoError(t, err)
	return envelope, message
}

func TestClientPublishesProtocol1(t *testing.T) {
	sent := &publisher{}
	client := newClient(t, &lovage.Broker{Publisher: sent, Queue: "orders"}, &lovage.Backend{Results: &memory{}})

	first, err := client.Delay("worker.add", 2, 1<<53+1)
	require.NoError(t, err)
	second, err := client.DelayKwargs("worker.add", map[string]any{"a": 1, "b": "é"})
	require.NoError(t, err)
	require.NotEqual(t, first.TaskID, second.TaskID)

	require.Equal(t, "orders", sent.queue)
	require.Len(t, sent.outgoing, 2)
	envelope, message := decode(t, sent.outgoing[0])
	require.Equal(t, protocol.Protocol1, message.Protocol)
	require.Equal(t, "worker.add", message.Task)
	require.Equal(t, first.TaskID, message.ID)
	require.Equal(t, first.TaskID, message.CorrelationID)
	require.Empty(t, message.ReplyTo)
	require.Equal(t, "orders", message.Queue)
	require.Equal(t, []any{int64(2), int64(1<<53 + 1)}, message.Args)
	require.Empty(t, message.Kwargs)
	require.True(t, message.ETA.IsZero())
	require.Zero(t, message.Retries)
	require.Equal(t, 2, envelope.Properties.DeliveryMode)

	other, message := decode(t, sent.outgoing[1])
	require.Equal(t, map[string]any{"a": int64(1), "b": "é"}, message.Kwargs)
	require.Empty(t, message.Args)
	require.NotEqual(t, envelope.Properties.DeliveryTag, other.Properties.DeliveryTag)
}

func TestClientDefaultsToQueueCelery(t *testing.T) {
	sent := &publisher{}
	client := newClient(t, &lovage.Broker{Publisher: sent, Timeout: time.Second}, &lovage.Backend{Results: &memory{}})
	_, err := client.Delay("worker.add")
	require.NoError(t, err)
	require.Equal(t, "celery", sent.queue)
	_, message := decode(t, sent.outgoing[0])
	require.Equal(t, "celery", message.Queue)
}

func TestClientReportsPublishFailure(t *testing.T) {
	client := newClient(t, &lovage.Broker{Publisher: &publisher{fail: transport.ErrUnconfirmed}}, &lovage.Backend{Results: &memory{}})
	_, err := client.Delay("worker.add")
	require.ErrorIs(t, err, transport.ErrUnconfirmed)
	require.ErrorContains(t, err, `gocelery: can't publish to queue "celery"`)
}

func TestBrokerRefusesBrokenMessage(t *testing.T) {
	broker := &lovage.Broker{Publisher: &publisher{}}
	for _, body := range []string{"%", "bm90IGpzb24="} {
		require.ErrorContains(t, broker.SendCeleryMessage(&upstream.CeleryMessage{Body: body}), "gocelery: can't encode the message")
	}
}

func TestBrokerDoesNotConsume(t *testing.T) {
	message, err := (&lovage.Broker{}).GetTaskMessage()
	require.Nil(t, message)
	require.ErrorIs(t, err, lovage.ErrConsume)
}

func TestClientGetsResult(t *testing.T) {
	stored := &memory{}
	client := newClient(t, &lovage.Broker{Publisher: &publisher{}}, &lovage.Backend{Results: stored})
	result, err := client.Delay("worker.add", 2, 3)
	require.NoError(t, err)

	ready, err := result.Ready()
	require.ErrorIs(t, err, results.ErrNotFound)
	require.False(t, ready)

	// A state that isn't final is no result, not even None.
	require.NoError(t, stored.Store(t.Context(), protocol.Meta{TaskID: result.TaskID, Status: protocol.StateStarted}, results.StoreOptions{}))
	ready, err = result.Ready()
	require.ErrorIs(t, err, lovage.ErrNotReady)
	require.False(t, ready)
	_, err = result.AsyncGet()
	require.ErrorIs(t, err, lovage.ErrNotReady)

	require.NoError(t, stored.Store(t.Context(), protocol.Meta{TaskID: result.TaskID, Status: protocol.StateSuccess, Result: int64(5)}, results.StoreOptions{}))
	value, err := result.Get(5 * time.Second)
	require.NoError(t, err)
	require.Equal(t, any(5.0), value)
}

func TestClientSeesFailure(t *testing.T) {
	stored := &memory{}
	backend := &lovage.Backend{Results: stored, Timeout: time.Second}
	require.NoError(t, stored.Store(t.Context(), protocol.Meta{
		TaskID: "1", Status: protocol.StateFailure, Traceback: "Traceback ...",
		Result:   protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{"no", int64(1)}},
		Children: []any{[]any{"2", nil}},
	}, results.StoreOptions{}))

	message, err := backend.GetResult("1")

	require.NoError(t, err)
	require.Equal(t, &upstream.ResultMessage{
		ID: "1", Status: "FAILURE", Traceback: "Traceback ...",
		Result:   map[string]any{"exc_type": "ValueError", "exc_module": "builtins", "exc_message": []any{"no", 1.0}},
		Children: []any{[]any{"2", nil}},
	}, message)
}

func TestBackendStoresResult(t *testing.T) {
	stored := &memory{}
	backend := &lovage.Backend{Results: stored}
	require.NoError(t, backend.SetResult("1", &upstream.ResultMessage{Status: "SUCCESS", Result: []int{1, 2}}))
	meta := stored.metas["1"]
	require.WithinDuration(t, time.Now(), meta.DateDone, time.Minute)
	meta.DateDone = time.Time{}
	require.Equal(t, protocol.Meta{TaskID: "1", Status: protocol.StateSuccess, Result: []any{int64(1), int64(2)}, Children: []any{}}, meta)

	require.NoError(t, backend.SetResult("2", &upstream.ResultMessage{Status: "RETRY", Traceback: io.EOF}))
	require.Equal(t, "EOF", stored.metas["2"].Traceback)
	require.True(t, stored.metas["2"].DateDone.IsZero())

	err := backend.SetResult("3", &upstream.ResultMessage{Status: "SUCCESS", Result: make(chan int)})
	require.ErrorContains(t, err, "gocelery: can't encode the result of task 3")
}
