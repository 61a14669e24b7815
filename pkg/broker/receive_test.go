package broker

import (
	"context"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

func pullRequest(queue string, n, wait int32, peek bool) *pb.ReceiveQueueMessagesRequest {
	return &pb.ReceiveQueueMessagesRequest{
		ClientID: "test", Channel: queue, MaxNumberOfMessages: n, WaitTimeSeconds: wait, IsPeak: peek,
	}
}

func TestPullTakesAndPeekLooks(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2", "3")
		consumer := c.consumer()
		consumer.get("q", 1) // in flight elsewhere: not shown
		for range 2 {
			peeked, err := c.ReceiveQueueMessages(t.Context(), pullRequest("q", 10, 3600, true))
			require.NoError(t, err)
			require.Equal(t, []string{"2", "3"}, bodies(peeked.Messages))
			require.EqualValues(t, 1, peeked.Messages[0].Attributes.ReceiveCount)
			require.True(t, peeked.IsPeak)
			require.EqualValues(t, 2, peeked.MessagesReceived)
			require.NotEmpty(t, peeked.RequestID)
		}
		pulled, err := c.ReceiveQueueMessages(t.Context(), pullRequest("q", 1, 3600, false))
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, bodies(pulled.Messages))
		require.Equal(t, []string{"3"}, c.peek("q"))
		require.EqualValues(t, 2, c.waiting("q"))
	})
}

func TestEveryPeekerSeesAMessageThatComes(t *testing.T) {
	c := startBroker(t, Config{})
	const peekers = 3
	seen := make(chan []string, peekers)
	for range peekers {
		go func() {
			response, err := c.ReceiveQueueMessages(t.Context(), pullRequest("result", 1, 3600, true))
			if err != nil {
				seen <- []string{err.Error()}
				return
			}
			seen <- bodies(response.Messages)
		}()
	}
	c.waitFor("waiting peeks", func() bool { return c.subscribers("result") == peekers })
	c.sendBodies("result", "done")
	for range peekers {
		require.Equal(t, []string{"done"}, <-seen)
	}
	require.Equal(t, []string{"done"}, c.peek("result"))
}

func TestAPullThatIsGivenUpTakesNothing(t *testing.T) {
	c := startBroker(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.ReceiveQueueMessages(ctx, pullRequest("q", 1, 3600, false))
		ended <- err
	}()
	c.waitFor("a waiting pull", func() bool { return c.subscribers("q") == 1 })
	cancel()
	require.Error(t, <-ended)
	c.waitFor("no waiting pull", func() bool { return c.subscribers("q") == 0 })
	c.sendBodies("q", "1")
	require.Equal(t, []string{"1"}, c.peek("q"))
}

func TestPullErrorsComeInsideTheResponse(t *testing.T) {
	c := startBroker(t, Config{})
	tests := []struct {
		request *pb.ReceiveQueueMessagesRequest
		want    error
	}{
		{&pb.ReceiveQueueMessagesRequest{Channel: "q", MaxNumberOfMessages: 1}, errClientID},
		{pullRequest("a..b", 1, 1, false), errQueueName},
		{pullRequest("q", 0, 1, false), errMaxMessages},
		{pullRequest("q", 1025, 1, true), errMaxMessages},
		{pullRequest("q", 1, -1, false), errWaitTimeout},
		{pullRequest("q", 1, 3601, false), errWaitTimeout},
	}
	for _, test := range tests {
		response, err := c.ReceiveQueueMessages(t.Context(), test.request)
		require.NoError(t, err)
		require.True(t, response.IsError)
		require.Equal(t, test.want.Error(), response.Error)
	}
}

func TestExpiredMessagesAreCounted(t *testing.T) {
	c := startBroker(t, Config{})
	c.send(delayed("q", "short", 0, 1), testMessage("q", "long"))
	c.waitFor("the expiration", func() bool {
		response, err := c.ReceiveQueueMessages(t.Context(), pullRequest("q", 1, 1, true))
		require.NoError(t, err)
		return bodies(response.Messages)[0] == "long"
	})
	listed := c.list(kindQueues, "q")
	require.EqualValues(t, 1, listed[0].Incoming["expired"])
}

func TestAckAllTakesWhatIsReady(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		const n = 2*maxSweep + 3
		c.sendBodies("q", make([]string, n)...)
		c.send(delayed("q", "delayed", 3600, 0))
		consumer := c.consumer()
		held := consumer.get("q", 1)

		start := time.Now()
		request := &pb.AckAllQueueMessagesRequest{RequestID: "r", ClientID: "test", Channel: "q", WaitTimeSeconds: 3600}
		response, err := c.AckAllQueueMessages(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, &pb.AckAllQueueMessagesResponse{RequestID: "r", AffectedMessages: n - 1}, response)
		require.Less(t, time.Since(start), waitLimit, "it does not wait for more")

		consumer.settle(typeCloseByClient, held.TransactionId)
		require.Len(t, consumer.get("q", 5).Messages, 1, "what was in flight is still there")
		require.EqualValues(t, 1, c.list(kindQueues, "q")[0].Incoming["delayed"])

		response, err = c.AckAllQueueMessages(t.Context(), &pb.AckAllQueueMessagesRequest{ClientID: "test", Channel: "none"})
		require.NoError(t, err)
		require.Zero(t, response.AffectedMessages)
		require.NotEmpty(t, response.RequestID)
	})
}

func TestAckAllErrorsComeInsideTheResponse(t *testing.T) {
	c := startBroker(t, Config{})
	tests := []struct {
		request *pb.AckAllQueueMessagesRequest
		want    error
	}{
		{&pb.AckAllQueueMessagesRequest{Channel: "q"}, errClientID},
		{&pb.AckAllQueueMessagesRequest{ClientID: "c", Channel: "a b"}, errQueueName},
		{&pb.AckAllQueueMessagesRequest{ClientID: "c", Channel: "q", WaitTimeSeconds: -1}, errWaitTimeout},
	}
	for _, test := range tests {
		response, err := c.AckAllQueueMessages(t.Context(), test.request)
		require.NoError(t, err)
		require.Equal(t, test.want.Error(), response.Error)
	}
}

func TestQueuesInfoCountsReadyAndInFlight(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("QUEUE_S.1", "1", "2", "3")
	c.sendBodies("other", "1")
	c.send(delayed("other", "late", 3600, 0))
	consumer := c.consumer()
	got := consumer.get("QUEUE_S.1", 2)
	consumer.settle(typeAckRange, got.TransactionId, 1)
	consumer.barrier(got.TransactionId)

	all, err := c.QueuesInfo(t.Context(), &pb.QueuesInfoRequest{RequestID: "r"})
	require.NoError(t, err)
	require.Equal(t, "r", all.RefRequestID)
	require.EqualValues(t, 2, all.Info.TotalQueue)
	require.EqualValues(t, 3, all.Info.Waiting)

	one, err := c.QueuesInfo(t.Context(), &pb.QueuesInfoRequest{QueueName: "none;QUEUE_S.1"})
	require.NoError(t, err)
	require.Len(t, one.Info.Queues, 1)
	info := one.Info.Queues[0]
	require.Positive(t, info.Bytes)
	info.Bytes = 0
	require.Equal(t, &pb.QueueInfo{
		Name: "QUEUE_S.1", Messages: 2, FirstSequence: 1, LastSequence: 3, Sent: 3, Delivered: 2, Waiting: 2,
	}, info)
}
