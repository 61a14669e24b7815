package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// TestDeletedWhileAGetWakesUp: a Get is woken by a message, and before it looks
// the queue is deleted and used again. It must not stay at the old queue, whose end
// would take the new one with it.
func TestDeletedWhileAGetWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		qs, err := openQueues(Config{}.withDefaults(), newMemoryStore())
		require.NoError(t, err)
		go qs.journal.run()
		go qs.keepTime(ctx)
		defer func() { cancel(); qs.journal.close() }()
		send := func(body string) {
			_, err := qs.send(ctx, []*pb.QueueMessage{testMessage("q", body)})
			require.NoError(t, err)
		}
		waiting, err := qs.lineUp(ctx, want{queue: "q", max: 1, wait: 2 * time.Second})
		require.NoError(t, err)
		send("wakes it")
		require.NoError(t, qs.deleteChannel(channelKey{kind: kindQueues, name: "q"}).wait(ctx))
		send("must be received")
		waiting.await(ctx)
		<-time.After(2 * idleTime)
		later, err := qs.lineUp(ctx, want{queue: "q", max: 1})
		require.NoError(t, err)
		require.Equal(t, 1, len(waiting.messages)+len(later.messages))
	})
}
