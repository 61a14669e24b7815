package transporttest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func (s *suite) broadcast(t *testing.T) {
	t.Helper()
	tr := s.start(t)
	if !tr.Capabilities().Fanout {
		t.Skip("the broker has no fanout")
	}
	channel, other := queueName(), s.start(t)
	heard := make([]chan string, 2)
	for i, subscriber := range []transport.Transport{tr, other} {
		heard[i] = make(chan string, 100)
		subscription := subscribe(t, subscriber, channel, heard[i])
		t.Cleanup(func() { require.NoError(t, subscription.Close()) })
	}
	closed := make(chan string, 100)
	require.NoError(t, subscribe(t, other, channel, closed).Close())
	for i := range 20 {
		require.NoError(t, tr.Broadcast(t.Context(), channel, fmt.Append(nil, i), nil))
	}
	require.NoError(t, tr.Broadcast(t.Context(), queueName(), []byte("elsewhere"), nil))
	for _, ears := range heard {
		for i := range 20 {
			select {
			case text := <-ears:
				require.Equal(t, strconv.Itoa(i), text)
			case <-time.After(patience):
				t.Fatalf("broadcast %d did not arrive", i)
			}
		}
	}
	require.Empty(t, closed, "a closed subscription hears nothing")
}

func subscribe(t *testing.T, tr transport.Transport, channel string, heard chan<- string) transport.Subscription {
	t.Helper()
	subscription, err := tr.Subscribe(t.Context(), channel, func(body []byte) { heard <- string(body) })
	require.NoError(t, err)
	return subscription
}
