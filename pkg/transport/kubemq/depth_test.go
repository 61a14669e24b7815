package kubemq

import (
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

func TestWaiting(t *testing.T) {
	t.Parallel()
	client := dialed(t, startBroker(t, broker.Config{}).addr())
	isEmpty := func(channel string) bool {
		t.Helper()
		messages, told, err := client.Waiting(t.Context(), channel)
		require.NoError(t, err)
		return told && messages == 0
	}
	require.True(t, isEmpty("never.used"))
	for range 100 {
		// At once, also when the answer to the send has just come.
		require.NoError(t, client.Send(t.Context(), &pb.QueueMessage{Channel: "q", Body: []byte("x")}))
		require.False(t, isEmpty("q"))
		_, err := client.Purge(t.Context(), "q")
		require.NoError(t, err)
		require.True(t, isEmpty("q"))
	}
	require.NoError(t, client.Send(t.Context(), &pb.QueueMessage{Channel: "q", Body: []byte("x"), Policy: &pb.QueueMessagePolicy{DelaySeconds: 60}}))
	require.True(t, isEmpty("q"), "delayed")
	require.False(t, isEmpty("TASKS"), "a name that the server can't be asked for")

	messages, err := client.Peek(t.Context(), "never.used", 1, time.Second)
	require.NoError(t, err)
	require.Empty(t, messages, "asking made no message")
}

// TestDepths: what is ready or in flight, by Celery's names, also of queues whose names
// the 2023 server cuts or that kubemq-celery maps.
func TestDepths(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]broker.Quirks{"clean": {}, "quirks of 2023": broker.AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := started(t, Config{Address: startBroker(t, broker.Config{Quirks: quirks}).addr()})
			for queue, n := range map[string]int{"celery": 3, "shop/orders": 2, "SALES": 1} {
				for range n {
					require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("x")}))
				}
			}
			require.NoError(t, tr.Publish(t.Context(), "celery", transport.Outgoing{Body: []byte("x"), Delay: time.Minute}))
			held := received(t, opened(t, tr, "celery"), 1)
			depths, err := tr.Depths(t.Context(), "celery", "shop/orders", "SALES", "never.used")
			require.NoError(t, err)
			require.Equal(t, map[string]int64{"celery": 3, "shop/orders": 2, "SALES": 1, "never.used": 0}, depths)
			require.NoError(t, held[0].Ack(t.Context()))

			_, err = tr.Depths(t.Context(), "celery", "\x00")
			require.ErrorIs(t, err, transport.ErrName)
		})
	}
}
