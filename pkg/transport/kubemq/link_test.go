package kubemq

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

// recorder notes hook calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recorder) has(calls ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := calls
	for _, call := range r.calls {
		if len(left) > 0 && call == left[0] {
			left = left[1:]
		}
	}
	return len(left) == 0
}

func (r *recorder) hooks() transport.Hooks {
	return transport.Hooks{
		Lost:     func(error) { r.note("lost") },
		Retrying: func(error, int, time.Duration) { r.note("retrying") },
		Restored: func() { r.note("restored") },
	}
}

// TestHooksTellOfARestart: one call for each change, in order, while a Receive
// waits, many acks fail and messages are published.
func TestHooksTellOfARestart(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{DataDir: t.TempDir(), Sync: broker.SyncOff})
	var record recorder
	tr := started(t, Config{Address: server.addr(), Hooks: record.hooks()})
	c := opened(t, tr, "q")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan transport.Delivery, 1)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for ctx.Err() == nil {
			if err := c.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: time.Second},
				func(d transport.Delivery) { got <- d }); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		server.stop(t)
		within(t, func() bool { return record.has("lost", "retrying", "retrying") }, "lost")
		published := make(chan error, 1)
		go func() { published <- tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}) }()
		server.start(t)
		require.NoError(t, <-published, "a publish waits for the broker")
		require.NoError(t, (<-got).Ack(t.Context()))
		within(t, func() bool { return record.has("lost", "retrying", "restored") }, "restored")
		record.mu.Lock()
		count := map[string]int{}
		for _, call := range record.calls {
			count[call]++
		}
		require.Equal(t, 1, count["lost"])
		require.Equal(t, 1, count["restored"])
		require.Equal(t, "restored", record.calls[len(record.calls)-1])
		record.calls = nil
		record.mu.Unlock()
	}
	cancel()
	receiving.Wait()
}

func TestStartTriesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	var record recorder
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hooks := record.hooks()
	hooks.Retrying = func(_ error, attempt int, _ time.Duration) {
		record.note("retrying")
		if attempt == 3 {
			cancel()
		}
	}
	tr, err := New(Config{Address: "127.0.0.1:1", Hooks: hooks})
	require.NoError(t, err)
	err = tr.Start(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "refused", "the reason is there")
	require.True(t, record.has("retrying", "retrying", "retrying"))
	require.False(t, record.has("lost"), "it was never there")
	require.NoError(t, tr.Stop())
}

func TestStartWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	server.stop(t)
	tr, err := New(Config{Address: server.config.Listen})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Stop()) }()
	result := make(chan error, 1)
	go func() { result <- tr.Start(t.Context()) }()
	server.start(t)
	require.NoError(t, <-result)
	require.ErrorIs(t, tr.Start(t.Context()), transport.ErrStopped, "a second time")
}

// TestStopEndsStart, which would go on for ever.
func TestStopEndsStart(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 1000)
	tr, err := New(Config{Address: "127.0.0.1:1", Hooks: transport.Hooks{
		Retrying: func(error, int, time.Duration) { tried <- struct{}{} },
	}})
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() { result <- tr.Start(t.Context()) }()
	<-tried
	require.NoError(t, tr.Stop())
	require.ErrorIs(t, <-result, transport.ErrStopped)
}

// TestWrongToken: it won't get better by waiting.
func TestWrongToken(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{AuthToken: "right"})
	tr, err := New(Config{Address: server.addr(), AuthToken: "wrong"})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Stop()) }()
	err = tr.Start(t.Context())
	require.ErrorContains(t, err, "token")
	require.NotContains(t, err.Error(), "wrong")
	started(t, Config{Address: server.addr(), AuthToken: "right"})
}

// TestConnectionsAreFew, whatever the number of queues.
func TestConnectionsAreFew(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	proxy := transporttest.NewProxy(t, server.addr())
	tr := started(t, Config{Address: proxy.Addr()})
	var all sync.WaitGroup
	for i := range 30 {
		c := opened(t, tr, string(rune('a'+i%26))+"-queue")
		all.Go(func() {
			if err := tr.Publish(t.Context(), "other", transport.Outgoing{Body: []byte("x")}); err != nil {
				t.Error(err)
			}
			if err := c.Receive(t.Context(), transport.ReceiveRequest{Slots: 4}, func(transport.Delivery) {}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	subscription, err := tr.Subscribe(t.Context(), "c", func([]byte) {})
	require.NoError(t, err)
	require.NoError(t, subscription.Close())
	require.LessOrEqual(t, proxy.Accepted(), 3)
}

// TestSilentPeer: a broker that accepts connections and never answers.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	tr, err := New(Config{Address: listener.Addr().String(), ConnectTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Stop()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tr.Start(ctx), context.DeadlineExceeded)
}
