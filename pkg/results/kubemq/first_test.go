package kubemq

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// TestStoreFirst: all who store at the same time learn of the same first one.
func TestStoreFirst(t *testing.T) {
	t.Parallel()
	storesFirst(t, startBroker(t, broker.Config{}), "k")
}

// storesFirst is the test, with a task of its own.
func storesFirst(t *testing.T, address, id string) {
	t.Helper()
	b := open(t, address, transport.Hooks{})
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		firsts = map[any]int{}
	)
	storeFirst := func(owner int64, expires time.Duration) {
		first, err := b.StoreFirst(t.Context(), protocol.Meta{TaskID: id, Status: protocol.StateSuccess, Result: owner},
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

	fetched, err := b.Fetch(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, firsts, fetched.Result)

	require.NoError(t, b.Forget(t.Context(), id))
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

// TestStoreFirstThatIsHidden: while somebody has the first in his hands, as a peek has
// on the server of 2023, nobody else takes his own for it.
func TestStoreFirstThatIsHidden(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	success := func(owner int64) protocol.Meta {
		return protocol.Meta{TaskID: "k", Status: protocol.StateSuccess, Result: owner}
	}
	_, err := b.StoreFirst(t.Context(), success(1), results.StoreOptions{Expires: time.Hour})
	require.NoError(t, err)
	channel, err := b.channel("k")
	require.NoError(t, err)
	messages, err := b.client.Peek(t.Context(), channel, 1, peekWait)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	errSeen := errors.New("seen")
	hold := []kubemq.Pick{kubemq.PickOf(messages[0], true)}
	require.ErrorIs(t, b.client.Pick(t.Context(), channel, hold, func(ctx context.Context, _ *pb.QueueMessage) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := b.StoreFirst(ctx, success(2), results.StoreOptions{Expires: time.Hour})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return errSeen
	}), errSeen)
	first, err := b.StoreFirst(t.Context(), success(3), results.StoreOptions{Expires: time.Hour})
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Result)
}
