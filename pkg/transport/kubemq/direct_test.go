package kubemq

import (
	"bytes"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestAnswerTooLarge: messages that fit one by one, and not together.
func TestAnswerTooLarge(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	tr := started(t, Config{Address: server.addr(), Strategy: StrategyDirect, MaxReceive: 1 << 20})
	body := bytes.Repeat([]byte("x"), 400<<10)
	for range 7 {
		require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: body}))
	}
	c := opened(t, tr, "q")
	done := 0
	for end := time.Now().Add(patience); done < 7 && time.Now().Before(end); {
		var got []transport.Delivery
		require.NoError(t, c.Receive(t.Context(), transport.ReceiveRequest{Slots: 7, Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
		for _, d := range got {
			require.NoError(t, d.Ack(t.Context()))
		}
		done += len(got)
	}
	require.Equal(t, 7, done)
	// One that does not fit at all is an error, not a loop.
	require.NoError(t, started(t, Config{Address: server.addr(), Strategy: StrategyDirect}).Publish(t.Context(), "big",
		transport.Outgoing{Body: make([]byte, 2<<20)}))
	big := opened(t, tr, "big")
	err := error(nil)
	for end := time.Now().Add(patience); err == nil && time.Now().Before(end); {
		err = big.Receive(t.Context(), transport.ReceiveRequest{Slots: 4, Wait: time.Second}, func(transport.Delivery) {
			t.Error("received")
		})
	}
	require.ErrorIs(t, err, transport.ErrTooLarge)
}

// TestMoreThanAskedFor: a broker that sends more than there are slots is not
// obeyed.
func TestMoreThanAskedFor(t *testing.T) {
	t.Parallel()
	var once sync.Once
	hold := holding(message("a", 1))
	server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		first := false
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_Get {
			once.Do(func() { first = true })
		}
		if first {
			answer(&pb.QueuesDownstreamResponse{TransactionId: "much", Messages: []*pb.QueueMessage{message("b", 2), message("c", 3)}})
			return
		}
		hold(request, answer)
	}}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
	d := received(t, c, 1)[0]
	require.Equal(t, "a", string(d.Body()))
	require.Equal(t, "much", server.of(pb.QueuesDownstreamRequestType_CloseByClient)[0].RefTransactionId)
	require.NoError(t, d.Ack(t.Context()))
}

// TestStreamsAreRecycled: the server keeps what a stream delivered until it ends.
func TestStreamsAreRecycled(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: holding(message("a", 1), message("b", 2), message("c", 3))}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
	held := received(t, c, 1)[0]
	pool := c.(*consumer).strategy.(*direct).polls.streams
	pool.mu.Lock()
	old := pool.all[0]
	old.gets = recycleGets
	pool.mu.Unlock()
	require.NoError(t, received(t, c, 1)[0].Ack(t.Context()), "on a new stream")
	require.False(t, old.broken(), "it holds a message")
	require.NoError(t, held.Ack(t.Context()))
	<-old.done
	require.NoError(t, received(t, c, 1)[0].Ack(t.Context()))
	server.mu.Lock()
	defer server.mu.Unlock()
	require.Equal(t, 2, server.streams)
}
