package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// waitLimit bounds waiting for something that should happen soon.
const waitLimit = 30 * time.Second

// eachStore runs a test against every kind of store.
func eachStore(t *testing.T, test func(c *client)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(startBroker(t, Config{})) })
	t.Run("disk", func(t *testing.T) { test(startBroker(t, Config{DataDir: t.TempDir()})) })
}

// client is a connection to a broker of a test.
type client struct {
	pb.KubemqClient
	t      *testing.T
	broker *Broker
	conn   *grpc.ClientConn
}

// startBroker starts a broker that the test stops at its end.
func startBroker(t *testing.T, config Config) *client {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	b, err := New(config)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	return connect(t, b)
}

func connect(t *testing.T, b *Broker) *client {
	t.Helper()
	conn, err := grpc.NewClient(b.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(DefaultMaxMessageBytes), grpc.MaxCallSendMsgSize(2*DefaultMaxMessageBytes)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{KubemqClient: pb.NewKubemqClient(conn), t: t, broker: b, conn: conn}
}

func testMessage(queue, body string) *pb.QueueMessage {
	return &pb.QueueMessage{ClientID: "test", Channel: queue, Body: []byte(body)}
}

// send stores messages, one call for all, and requires success.
func (c *client) send(messages ...*pb.QueueMessage) []*pb.SendQueueMessageResult {
	c.t.Helper()
	response, err := c.SendQueueMessagesBatch(c.t.Context(), &pb.QueueMessagesBatchRequest{Messages: messages})
	require.NoError(c.t, err)
	for _, result := range response.Results {
		require.False(c.t, result.IsError, result.Error)
	}
	return response.Results
}

// sendBodies stores one message for each body.
func (c *client) sendBodies(queue string, bodies ...string) {
	c.t.Helper()
	messages := make([]*pb.QueueMessage, len(bodies))
	for i, body := range bodies {
		messages[i] = testMessage(queue, body)
		messages[i].Metadata = "not empty"
	}
	c.send(messages...)
}

// waiting is the depth of a queue as clients see it.
func (c *client) waiting(queue string) int64 {
	c.t.Helper()
	response, err := c.QueuesInfo(c.t.Context(), &pb.QueuesInfoRequest{QueueName: queue})
	require.NoError(c.t, err)
	return response.Info.Waiting
}

// peek returns the bodies that a peek shows.
func (c *client) peek(queue string) []string {
	c.t.Helper()
	response, err := c.ReceiveQueueMessages(c.t.Context(), &pb.ReceiveQueueMessagesRequest{
		ClientID: "test", Channel: queue, MaxNumberOfMessages: 1024, WaitTimeSeconds: 1, IsPeak: true,
	})
	require.NoError(c.t, err)
	require.False(c.t, response.IsError, response.Error)
	return bodies(response.Messages)
}

func bodies(messages []*pb.QueueMessage) []string {
	found := make([]string, len(messages))
	for i, m := range messages {
		found[i] = string(m.Body)
	}
	return found
}

func sequences(messages []*pb.QueueMessage) []int64 {
	found := make([]int64, len(messages))
	for i, m := range messages {
		found[i] = int64(m.Attributes.Sequence)
	}
	return found
}

// consumer is a downstream stream.
type consumer struct {
	*client
	stream pb.Kubemq_QueuesDownstreamClient
	cancel context.CancelFunc
	last   int
}

func (c *client) consumer() *consumer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	stream, err := c.QueuesDownstream(ctx)
	require.NoError(c.t, err)
	return &consumer{client: c, stream: stream, cancel: cancel}
}

// request sends a request under a new id and returns the id.
func (c *consumer) request(r *pb.QueuesDownstreamRequest) string {
	c.t.Helper()
	c.last++
	r.RequestID = fmt.Sprint("r", c.last)
	r.ClientID = "test"
	require.NoError(c.t, c.stream.Send(r))
	return r.RequestID
}

// receive returns the next response.
func (c *consumer) receive() *pb.QueuesDownstreamResponse {
	c.t.Helper()
	response, err := c.stream.Recv()
	require.NoError(c.t, err)
	return response
}

// startGet sends a Get without waiting for its answer.
func (c *consumer) startGet(queue string, maxItems int32, wait time.Duration) string {
	c.t.Helper()
	return c.request(&pb.QueuesDownstreamRequest{
		RequestTypeData: pb.QueuesDownstreamRequestType_Get,
		Channel:         queue, MaxItems: maxItems, WaitTimeout: int32(wait / time.Millisecond),
	})
}

// get takes what is ready and requires success.
func (c *consumer) get(queue string, maxItems int32) *pb.QueuesDownstreamResponse {
	c.t.Helper()
	return c.getWait(queue, maxItems, 0)
}

func (c *consumer) getWait(queue string, maxItems int32, wait time.Duration) *pb.QueuesDownstreamResponse {
	c.t.Helper()
	id := c.startGet(queue, maxItems, wait)
	response := c.receive()
	require.Equal(c.t, id, response.RefRequestId)
	require.Equal(c.t, pb.QueuesDownstreamRequestType_Get, response.RequestTypeData)
	require.False(c.t, response.IsError, response.Error)
	return response
}

// settle sends a request about a transaction that has no answer if it succeeds.
func (c *consumer) settle(kind pb.QueuesDownstreamRequestType, transaction string, sequences ...int64) {
	c.t.Helper()
	c.request(&pb.QueuesDownstreamRequest{
		RequestTypeData: kind, RefTransactionId: transaction, SequenceRange: sequences, ReQueueChannel: "moved",
	})
}

// barrier waits until everything sent before took effect, and returns what the
// transaction has open; closed if it has nothing.
func (c *consumer) barrier(transaction string) (open []int64, closed bool) {
	c.t.Helper()
	id := c.request(&pb.QueuesDownstreamRequest{
		RequestTypeData: pb.QueuesDownstreamRequestType_ActiveOffsets, RefTransactionId: transaction,
	})
	response := c.receive()
	require.Equal(c.t, id, response.RefRequestId, response.Error)
	if response.IsError {
		require.Equal(c.t, "cannot get active offsets with closed response ", response.Error)
	}
	return response.ActiveOffsets, response.IsError
}

// fails requires that the next response is the failure of a request.
func (c *consumer) fails(id, text string) {
	c.t.Helper()
	response := c.receive()
	require.Equal(c.t, id, response.RefRequestId)
	require.True(c.t, response.IsError)
	require.Equal(c.t, text, response.Error)
}

// subscribers counts the requests that wait at a queue.
func (c *client) subscribers(queue string) int64 {
	c.t.Helper()
	response, err := c.QueuesInfo(c.t.Context(), &pb.QueuesInfoRequest{QueueName: queue})
	require.NoError(c.t, err)
	if len(response.Info.Queues) == 0 {
		return 0
	}
	return response.Info.Queues[0].Subscribers
}

// waitFor asks the broker until something that another connection did is there.
func (c *client) waitFor(what string, there func() bool) {
	c.t.Helper()
	require.Eventually(c.t, there, waitLimit, time.Millisecond, what)
}
