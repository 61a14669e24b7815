package broker

import (
	"strconv"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRequestsOfAnUpstreamKeepTheirOrder(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		const n = 2000 // more than may be under way
		stream, err := c.QueuesUpstream(t.Context())
		require.NoError(t, err)
		sent := make(chan error, 1)
		go func() {
			for i := range n {
				request := &pb.QueuesUpstreamRequest{RequestID: strconv.Itoa(i), Messages: []*pb.QueueMessage{testMessage("q", strconv.Itoa(i))}}
				if err := stream.Send(request); err != nil {
					sent <- err
					return
				}
			}
			sent <- stream.CloseSend()
		}()
		for i := range n {
			response, err := stream.Recv()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), response.RefRequestID)
			require.Len(t, response.Results, 1)
			require.False(t, response.Results[0].IsError)
		}
		require.NoError(t, <-sent)
		got := c.consumer().get("q", n)
		require.Len(t, got.Messages, n)
		for i, m := range got.Messages {
			require.Equal(t, strconv.Itoa(i), string(m.Body))
			require.EqualValues(t, i+1, m.Attributes.Sequence)
		}
	})
}

func TestAnUpstreamAnswersOneResultPerMessage(t *testing.T) {
	c := startBroker(t, Config{})
	stream, err := c.QueuesUpstream(t.Context())
	require.NoError(t, err)
	exchange := func(request *pb.QueuesUpstreamRequest) *pb.QueuesUpstreamResponse {
		require.NoError(t, stream.Send(request))
		response, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, request.RequestID, response.RefRequestID)
		return response
	}
	bad, late := testMessage("a\tb", "x"), testMessage("q", "late")
	bad.MessageID = "mine"
	late.Policy = &pb.QueueMessagePolicy{DelaySeconds: 10, ExpirationSeconds: 20}
	response := exchange(&pb.QueuesUpstreamRequest{RequestID: "1", Messages: []*pb.QueueMessage{testMessage("q", "x"), bad, late}})
	require.False(t, response.IsError)
	require.Len(t, response.Results, 3)

	require.NotEmpty(t, response.Results[0].MessageID)
	require.WithinDuration(t, time.Now(), time.Unix(0, response.Results[0].SentAt), waitLimit)
	require.Zero(t, response.Results[0].ExpirationAt)
	require.Equal(t, &pb.SendQueueMessageResult{MessageID: "mine", IsError: true, Error: errQueueName.Error()}, response.Results[1])
	last := response.Results[2]
	require.Equal(t, (10 * time.Second).Nanoseconds(), last.DelayedTo-last.SentAt)
	require.Equal(t, (30 * time.Second).Nanoseconds(), last.ExpirationAt-last.SentAt)

	empty := exchange(&pb.QueuesUpstreamRequest{})
	require.True(t, empty.IsError)
	require.Equal(t, "no messages to send", empty.Error)
}

func TestSingleSendsAndBatches(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		result, err := c.SendQueueMessage(t.Context(), testMessage("q", "1"))
		require.NoError(t, err)
		require.False(t, result.IsError)
		result, err = c.SendQueueMessage(t.Context(), &pb.QueueMessage{Channel: "q", Body: []byte("x")})
		require.NoError(t, err)
		require.Equal(t, "Error 101: invalid clientID value, cannot be empty", result.Error)

		batch, err := c.SendQueueMessagesBatch(t.Context(), &pb.QueueMessagesBatchRequest{
			BatchID:  "b",
			Messages: []*pb.QueueMessage{testMessage("q", "2"), testMessage("", "x"), testMessage("other", "3"), testMessage("q", "")},
		})
		require.NoError(t, err)
		require.Equal(t, "b", batch.BatchID)
		require.False(t, batch.HaveErrors)
		failed := make([]bool, len(batch.Results))
		for i, r := range batch.Results {
			failed[i] = r.IsError
		}
		require.Equal(t, []bool{false, true, false, true}, failed)
		require.Equal(t, []string{"1", "2"}, c.peek("q"))
		require.Equal(t, []string{"3"}, c.peek("other"))

		_, err = c.SendQueueMessagesBatch(t.Context(), &pb.QueueMessagesBatchRequest{})
		require.Equal(t, codes.Unknown, status.Code(err))
		require.ErrorContains(t, err, "empty messages batch")
	})
}

func TestSizeLimitsHaveTheOriginalTexts(t *testing.T) {
	const limit = 1 << 20
	c := startBroker(t, Config{MaxMessageBytes: limit})
	_, err := c.SendQueueMessage(t.Context(), testMessage("q", string(make([]byte, limit))))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "grpc: received message larger than max (")
	require.ErrorContains(t, err, " vs. 1048576)")

	result, err := c.SendQueueMessage(t.Context(), testMessage("q", string(make([]byte, limit-100))))
	require.NoError(t, err)
	require.Equal(t, "nats: maximum payload exceeded", result.Error)

	c.send(testMessage("q", string(make([]byte, limit-2*envelopeBytes))))
	require.Len(t, c.consumer().get("q", 1).Messages, 1, "what is accepted can be delivered")
}

func TestAttributesOfTheSenderAreIgnored(t *testing.T) {
	c := startBroker(t, Config{})
	m := testMessage("q", "x")
	m.Attributes = &pb.QueueMessageAttributes{Sequence: 99, ReceiveCount: 7, ReRouted: true, ReRoutedFromQueue: "z", ExpirationAt: 1}
	c.send(m)
	got := c.consumer().get("q", 1).Messages[0].Attributes
	require.Equal(t, &pb.QueueMessageAttributes{Timestamp: got.Timestamp, Sequence: 1, ReceiveCount: 1}, got)
}
