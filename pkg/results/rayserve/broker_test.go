package rayserve

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
	connection "github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const patience = time.Minute

func startBroker(t *testing.T, config broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.New(config)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	return b
}

func open(t *testing.T, address string, hooks Hooks, try time.Duration) *Backend {
	t.Helper()
	b, err := New(Config{Connection: connection.Config{Address: address}, Hooks: hooks})
	require.NoError(t, err)
	b.patience = try
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, b.Start(ctx))
	return b
}

// oldest is what the adapter sees: it peeks for one message.
func oldest(t *testing.T, client *connection.Client, id string) string {
	t.Helper()
	messages, err := client.Peek(t.Context(), DefaultPrefix+id, 1, time.Second)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Empty(t, messages[0].Metadata)
	require.Empty(t, messages[0].Tags)
	require.EqualValues(t, 3600, messages[0].Policy.GetExpirationSeconds())
	return string(messages[0].Body)
}

func TestResultsWhereTheAdapterLooks(t *testing.T) {
	t.Parallel()
	address := startBroker(t, broker.Config{Listen: "127.0.0.1:0"}).Addr().String()
	client, err := connection.NewClient(connection.Config{Address: address})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	b := open(t, address, Hooks{}, patience)
	for _, step := range []struct{ stored, seen protocol.State }{
		{protocol.StatePending, protocol.StatePending},
		{protocol.StateStarted, protocol.StateStarted},
		{protocol.StateFailure, protocol.StateFailure},
		{protocol.StateRevoked, protocol.StateRevoked},
		{protocol.StateSuccess, protocol.StateRevoked},
		{protocol.StateStarted, protocol.StateRevoked},
	} {
		// An engine may take its own state for the first.
		require.NoError(t, b.Store(t.Context(), meta("1", step.stored), results.StoreOptions{First: true}))
		seen, err := Form{}.Decode([]byte(oldest(t, client, "1")))
		require.NoError(t, err)
		require.Equal(t, step.seen, seen.Status, step.stored)
		fetched, err := b.Fetch(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, seen, fetched)
		glanced, err := b.Glance(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, seen, glanced)
	}
	require.ErrorIs(t, b.Store(t.Context(), meta("1.", protocol.StateSuccess), results.StoreOptions{}), transport.ErrName,
		"another task's queue")
	require.NoError(t, b.Forget(t.Context(), "1"))
	_, err = b.Fetch(t.Context(), "1")
	require.ErrorIs(t, err, results.ErrNotFound)
	_, err = b.Glance(t.Context(), "1")
	require.ErrorIs(t, err, results.ErrNotFound)
}

// TestAdapterSeesAStateAtAnyMoment: it takes the oldest message, and an empty queue
// for PENDING.
func TestAdapterSeesAStateAtAnyMoment(t *testing.T) {
	t.Parallel()
	address := startBroker(t, broker.Config{Listen: "127.0.0.1:0"}).Addr().String()
	client, err := connection.NewClient(connection.Config{Address: address})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	b := open(t, address, Hooks{}, patience)
	states := []protocol.State{protocol.StatePending, protocol.StateStarted, protocol.StateFailure, protocol.StateSuccess}
	require.NoError(t, b.Store(t.Context(), meta("1", states[0]), results.StoreOptions{First: true}))
	stored := make(chan error, 1)
	go func() {
		for _, state := range states[1:] {
			if err := b.Store(t.Context(), meta("1", state), results.StoreOptions{}); err != nil {
				stored <- err
				return
			}
		}
		stored <- nil
	}()
	last := 0
	for end := time.Now().Add(patience); last < len(states)-1; {
		seen, err := Form{}.Decode([]byte(oldest(t, client, "1")))
		require.NoError(t, err)
		at := slices.Index(states, seen.Status)
		require.GreaterOrEqual(t, at, last, "%s after %s", seen.Status, states[last])
		require.True(t, time.Now().Before(end), "the last state seen is %s", seen.Status)
		last = at
	}
	require.NoError(t, <-stored)
}

// TestBrokerComesBack: a result outlives a broker that is away.
func TestBrokerComesBack(t *testing.T) {
	t.Parallel()
	config := broker.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()}
	server := startBroker(t, config)
	config.Listen = server.Addr().(*net.TCPAddr).String()
	kept := make(chan struct{}, 1)
	b := open(t, config.Listen, Hooks{Kept: func(string, error) { kept <- struct{}{} }}, 500*time.Millisecond)
	require.NoError(t, b.Store(t.Context(), meta("1", protocol.StatePending), results.StoreOptions{First: true}))
	require.NoError(t, server.Stop())
	require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{}))
	require.Len(t, kept, 1)
	require.GreaterOrEqual(t, b.Counts().Failed, uint64(3))

	startBroker(t, config)
	require.Eventually(t, func() bool { return b.Counts().Kept == 0 }, patience, 10*time.Millisecond)
	require.Zero(t, b.Counts().Dropped)
	other := open(t, config.Listen, Hooks{}, patience)
	got, err := other.Fetch(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, "result", got.Result)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]Config{
		"expiry 25h0m0s": {Expiry: 25 * time.Hour},
		"expiry 1ms":     {Expiry: time.Millisecond},
		"max result 5":   {MaxResult: 5},
		"prefix":         {Prefix: "a b"},
		"host:port":      {},
	} {
		_, err := New(config)
		require.ErrorContains(t, err, want)
	}
	b, err := New(Config{Connection: connection.Config{Address: "127.0.0.1:1"}, MaxResult: minMaxResult, Expiry: MaxExpiry})
	require.NoError(t, err)
	require.ErrorIs(t, b.Store(t.Context(), meta("///", protocol.StateSuccess), results.StoreOptions{}), transport.ErrName)
	require.NoError(t, b.Stop(), "never started")
}
