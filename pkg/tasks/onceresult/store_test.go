package onceresult_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
	"github.com/lovage-project/lovage/pkg/tasks/oncetest"
	connection "github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// memoryBackend is a backend in this process.
type memoryBackend struct {
	mu      sync.Mutex
	records map[string]record
	// before, if set, is called ahead of each operation ("fetch once-k-a").
	before func(operation string) error
}

type record struct {
	meta  protocol.Meta
	until time.Time
}

func (b *memoryBackend) begin(operation string) error {
	if b.before == nil {
		return nil
	}
	return b.before(operation)
}

func (b *memoryBackend) StoreFirst(_ context.Context, meta protocol.Meta, options results.StoreOptions) (protocol.Meta, error) {
	if err := b.begin("store " + meta.TaskID); err != nil {
		return protocol.Meta{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.records[meta.TaskID]; ok && time.Now().Before(r.until) {
		return r.meta, nil
	}
	b.records[meta.TaskID] = record{meta, time.Now().Add(options.Expires)}
	return meta, nil
}

func (b *memoryBackend) Fetch(_ context.Context, id string) (protocol.Meta, error) {
	if err := b.begin("fetch " + id); err != nil {
		return protocol.Meta{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.records[id]; ok && time.Now().Before(r.until) {
		return r.meta, nil
	}
	return protocol.Meta{}, results.ErrNotFound
}

func (b *memoryBackend) Forget(_ context.Context, id string) error {
	if err := b.begin("forget " + id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.records, id)
	return nil
}

func (*memoryBackend) Store(context.Context, protocol.Meta, results.StoreOptions) error {
	return errors.New("not for this store")
}
func (*memoryBackend) Start(context.Context) error { return nil }
func (*memoryBackend) Stop() error                 { return nil }

func newMemory() *memoryBackend { return &memoryBackend{records: map[string]record{}} }

func TestStore(t *testing.T) {
	for _, c := range oncetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, onceresult.New(newMemory())) })
		})
	}
}

// TestStoreOnKubeMQ takes real time: the broker counts the leases.
func TestStoreOnKubeMQ(t *testing.T) {
	t.Parallel()
	for _, c := range oncetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, onceresult.New(startBackend(t)))
		})
	}
}

func startBackend(tb testing.TB) *kubemq.Backend {
	tb.Helper()
	server, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(tb, err)
	require.NoError(tb, server.Start(tb.Context()))
	tb.Cleanup(func() { require.NoError(tb, server.Stop()) })
	backend, err := kubemq.New(kubemq.Config{Connection: connection.Config{Address: server.Addr().String()}})
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	require.NoError(tb, backend.Start(ctx))
	tb.Cleanup(func() { require.NoError(tb, backend.Stop()) })
	return backend
}

const lease = time.Minute

func claim(t *testing.T, store *onceresult.Store, owner string) tasks.OnceState {
	t.Helper()
	state, err := store.Claim(t.Context(), "k", owner, lease)
	require.NoError(t, err)
	return state
}

// TestAlwaysInOnePlace: while an owner renews, nobody finds both places empty.
func TestAlwaysInOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, writes := newMemory(), 0
		store := onceresult.New(backend)
		require.True(t, claim(t, store, "a").Claimed)
		backend.before = func(operation string) error {
			if strings.HasPrefix(operation, "fetch") {
				return nil
			}
			found := 0
			for _, id := range []string{"once-k-a", "once-k-b"} {
				if _, err := backend.Fetch(t.Context(), id); err == nil {
					found++
				}
			}
			require.NotZero(t, found, operation)
			writes++
			return nil
		}
		for range 20 {
			<-time.After(lease / 3)
			require.True(t, claim(t, store, "a").Claimed)
		}
		require.Greater(t, writes, 20, "it removes and stores")
	})
}

// TestFinishedWhileClaimed: who ran finishes between a look and a claim.
func TestFinishedWhileClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := onceresult.New(backend)
		backend.before = func(operation string) error {
			if operation == "store once-k-a" {
				backend.before = nil
				return store.Done(t.Context(), "k", []byte("1"), time.Hour)
			}
			return nil
		}
		require.Equal(t, tasks.OnceState{Done: true, Result: []byte("1")}, claim(t, store, "a"))
	})
}

// TestSomebodyElseWasFaster, in the place or in the other one.
func TestSomebodyElseWasFaster(t *testing.T) {
	for _, place := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			backend := newMemory()
			store := onceresult.New(backend)
			backend.before = func(operation string) error {
				if operation != "store once-k-a" {
					return nil
				}
				backend.before = nil
				_, err := backend.StoreFirst(t.Context(), protocol.Meta{
					TaskID: "once-k-" + place, Status: protocol.StateSuccess, Result: []any{"b", int64(7)},
				}, results.StoreOptions{Expires: lease})
				return err
			}
			require.Equal(t, tasks.OnceState{}, claim(t, store, "a"))
		})
	}
}

// TestRenewalWithSomebodyInTheWay: nobody removes the other's record, so neither
// runs for longer than it may, and the key is free when both are over.
func TestRenewalWithSomebodyInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := onceresult.New(backend)
		require.True(t, claim(t, store, "a").Claimed)
		backend.before = func(operation string) error {
			if operation != "store once-k-b" {
				return nil
			}
			backend.before = nil
			_, err := backend.StoreFirst(t.Context(), protocol.Meta{
				TaskID: "once-k-b", Status: protocol.StateSuccess, Result: []any{"b", int64(1)},
			}, results.StoreOptions{Expires: lease})
			return err
		}
		for _, owner := range []string{"a", "b", "a"} {
			_, err := store.Claim(t.Context(), "k", owner, lease)
			require.ErrorIs(t, err, onceresult.ErrNotRenewed)
		}
		require.Equal(t, tasks.OnceState{}, claim(t, store, "c"))
		<-time.After(lease)
		require.True(t, claim(t, store, "c").Claimed)
	})
}

func TestBackendErrors(t *testing.T) {
	broken := errors.New("down")
	for _, c := range []struct {
		operation string
		call      func(ctx context.Context, store *onceresult.Store) error
		want      string
	}{
		{"fetch once-k-b", claims("a"), `onceresult: read "once-k-b": down`},
		{"store once-k-b", claims("a"), `onceresult: store "once-k-b": down`},
		{"fetch once-k-result", claims("b"), `onceresult: read "once-k-result": down`},
		{"store once-k-result", func(ctx context.Context, s *onceresult.Store) error {
			return s.Done(ctx, "k", nil, lease)
		}, `onceresult: store "once-k-result": down`},
		{"forget once-k-a", func(ctx context.Context, s *onceresult.Store) error {
			return s.Release(ctx, "k", "a")
		}, `onceresult: release "k": down`},
		{"fetch once-k-a", func(ctx context.Context, s *onceresult.Store) error {
			return s.Release(ctx, "k", "a")
		}, `onceresult: read "once-k-a": down`},
	} {
		backend := newMemory()
		store := onceresult.New(backend)
		require.True(t, claim(t, store, "a").Claimed)
		backend.before = func(operation string) error {
			if operation == c.operation {
				return broken
			}
			return nil
		}
		err := c.call(t.Context(), store)
		require.ErrorIs(t, err, broken, c.operation)
		require.EqualError(t, err, c.want)
	}
}

func claims(owner string) func(ctx context.Context, s *onceresult.Store) error {
	return func(ctx context.Context, s *onceresult.Store) error {
		_, err := s.Claim(ctx, "k", owner, lease)
		return err
	}
}

// TestStrangersRecords: what somebody else stored under these ids is an error, and no
// claim.
func TestStrangersRecords(t *testing.T) {
	for id, values := range map[string][]any{
		"once-k-a":      {nil, "x", []any{"a"}, []any{"", int64(1)}, []any{int64(1), "a"}},
		"once-k-result": {nil, int64(1), "not base64!"},
	} {
		for _, value := range values {
			backend := newMemory()
			backend.records[id] = record{protocol.Meta{TaskID: id, Status: protocol.StateSuccess, Result: value}, time.Now().Add(time.Hour)}
			_, err := onceresult.New(backend).Claim(t.Context(), "k", "a", lease)
			require.EqualError(t, err, `onceresult: read "`+id+`": the record is none of this package's`)
		}
	}
}

// TestUnboundStore has no backend until it is bound.
func TestUnboundStore(t *testing.T) {
	store := onceresult.Unbound()
	_, err := store.Claim(t.Context(), "k", "a", time.Minute)
	require.ErrorIs(t, err, onceresult.ErrUnbound)
	require.ErrorIs(t, store.Done(t.Context(), "k", nil, time.Minute), onceresult.ErrUnbound)
	require.ErrorIs(t, store.Release(t.Context(), "k", "a"), onceresult.ErrUnbound)

	store.Bind(&memoryBackend{records: map[string]record{}})
	state, err := store.Claim(t.Context(), "k", "a", time.Minute)
	require.NoError(t, err)
	require.True(t, state.Claimed)
}
