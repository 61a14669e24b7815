package kubemq

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestStoreFirst: all who store at the same time learn of the same first one.
func TestStoreFirst(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		firsts = map[any]int{}
	)
	storeFirst := func(owner int64, expires time.Duration) {
		first, err := b.StoreFirst(t.Context(), protocol.Meta{TaskID: "k", Status: protocol.StateSuccess, Result: owner},
			results.StoreOptions{Expires: expires})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		firsts[first.Result]++
	}
	for i := range 16 {
		all.Go(func() { storeFirst(int64(i), time.Hour) })
	}
	all.Wait()
	require.Len(t, firsts, 1)

	fetched, err := b.Fetch(t.Context(), "k")
	require.NoError(t, err)
	require.Contains(t, firsts, fetched.Result)

	require.NoError(t, b.Forget(t.Context(), "k"))
	storeFirst(100, time.Hour)
	require.Equal(t, 1, firsts[int64(100)])
}

func TestStoreFirstTakesSuccessOnly(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	_, err := b.StoreFirst(t.Context(), meta("k", protocol.StateStarted), results.StoreOptions{})
	require.ErrorContains(t, err, "the state is STARTED, not SUCCESS")
	_, err = b.Fetch(t.Context(), "k")
	require.ErrorIs(t, err, results.ErrNotFound)
}
