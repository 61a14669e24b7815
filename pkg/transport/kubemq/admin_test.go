package kubemq

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

func dialed(t *testing.T, address string) *Client {
	t.Helper()
	c, err := NewClient(Config{Address: address})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestMoveKeepsEveryByte(t *testing.T) {
	t.Parallel()
	c := dialed(t, startBroker(t, broker.Config{}).addr())
	const count = 3*moveBatch + 5
	sent := make([]*pb.QueueMessage, 0, count)
	for i := range count {
		body := make([]byte, 1+i)
		_, _ = rand.Read(body)
		m := &pb.QueueMessage{
			Channel: "from", Body: body, Metadata: fmt.Sprintf("{\"n\": %d, \"ü\": \"\\u0000\"}", i),
			Tags:   map[string]string{tagAttempts: "3", tagReason: "invalid", "n": strconv.Itoa(i)},
			Policy: &pb.QueueMessagePolicy{ExpirationSeconds: 1000, MaxReceiveCount: 7, MaxReceiveQueue: "dead"},
		}
		require.NoError(t, c.Send(t.Context(), m))
		sent = append(sent, m)
	}
	moved, err := c.Move(t.Context(), "from", "to", 2)
	require.NoError(t, err)
	require.Equal(t, 2, moved)
	moved, err = c.Move(t.Context(), "from", "to", 0)
	require.NoError(t, err)
	require.Equal(t, count-2, moved)

	got, err := c.Peek(t.Context(), "to", count+1, time.Second)
	require.NoError(t, err)
	require.Len(t, got, count)
	for i, m := range got {
		require.Equal(t, sent[i].Body, m.Body)
		require.Equal(t, sent[i].Metadata, m.Metadata)
		require.Equal(t, sent[i].Tags, m.Tags)
		require.InDelta(t, 1000, m.Policy.ExpirationSeconds, 60)
		require.Equal(t, int32(7), m.Policy.MaxReceiveCount)
		require.Equal(t, "dead", m.Policy.MaxReceiveQueue)
	}
	queues, err := c.Queues(t.Context())
	require.NoError(t, err)
	depths := map[string]int64{}
	for _, q := range queues {
		depths[q.Name] = q.Depth
	}
	require.Equal(t, map[string]int64{"from": 0, "to": count}, depths)

	purged, err := c.Purge(t.Context(), "to")
	require.NoError(t, err)
	require.Equal(t, uint64(count), purged)
}

func TestMoveToItselfIsRefused(t *testing.T) {
	t.Parallel()
	c := dialed(t, startBroker(t, broker.Config{}).addr())
	_, err := c.Move(t.Context(), "q", "q", 0)
	require.ErrorIs(t, err, transport.ErrName)
}

// TestMoveAcksOnlyWhatIsConfirmed: a copy that the server refuses leaves its original,
// and those behind it, where they are.
func TestMoveAcksOnlyWhatIsConfirmed(t *testing.T) {
	t.Parallel()
	fake := &fakeServer{downstream: holding(message("a", 1), message("b", 2), message("c", 3))}
	fake.send = func(_ context.Context, m *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		require.Empty(t, fake.of(pb.QueuesDownstreamRequestType_AckRange), "acked before it was confirmed")
		if string(m.Body) == "b" {
			return &pb.SendQueueMessageResult{IsError: true, Error: "Error 120: no such queue"}, nil
		}
		return &pb.SendQueueMessageResult{}, nil
	}
	c := dialed(t, fake.serve(t))
	moved, err := c.Move(t.Context(), "from", "to", 0)
	require.ErrorIs(t, err, transport.ErrName)
	require.Equal(t, 1, moved)
	require.Len(t, fake.messagesSent(), 2)
	acks := fake.of(pb.QueuesDownstreamRequestType_AckRange)
	require.Len(t, acks, 1)
	require.Equal(t, []int64{1}, acks[0].SequenceRange)
}

// TestMoveTellsOfDuplicates: an ack that the server refuses leaves two.
func TestMoveTellsOfDuplicates(t *testing.T) {
	t.Parallel()
	hold := holding(message("a", 1))
	fake := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_AckRange {
			answer(&pb.QueuesDownstreamResponse{IsError: true, Error: "cannot ack messages with closed response "})
			return
		}
		hold(request, answer)
	}}
	moved, err := dialed(t, fake.serve(t)).Move(t.Context(), "from", "to", 0)
	require.Zero(t, moved)
	require.ErrorIs(t, err, transport.ErrLost)
	require.ErrorContains(t, err, `1 messages are in channel "to" too`)
}
