package kubemq

import (
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
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
