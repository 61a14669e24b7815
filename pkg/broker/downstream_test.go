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

// Short names for the requests of a stream.
const (
	typeAckAll        = pb.QueuesDownstreamRequestType_AckAll
	typeAckRange      = pb.QueuesDownstreamRequestType_AckRange
	typeNAckAll       = pb.QueuesDownstreamRequestType_NAckAll
	typeNAckRange     = pb.QueuesDownstreamRequestType_NAckRange
	typeReQueueAll    = pb.QueuesDownstreamRequestType_ReQueueAll
	typeReQueueRange  = pb.QueuesDownstreamRequestType_ReQueueRange
	typeActiveOffsets = pb.QueuesDownstreamRequestType_ActiveOffsets
	typeCloseByClient = pb.QueuesDownstreamRequestType_CloseByClient
)

func TestGetReturnsWhatIsReadyAtOnce(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		sent := c.send(testMessage("q", "1"), testMessage("q", "2"), testMessage("q", "3"))
		consumer := c.consumer()
		got := consumer.getWait("q", 2, time.Hour)
		require.Equal(t, []string{"1", "2"}, bodies(got.Messages))
		got = consumer.getWait("q", 10, time.Hour)
		require.Equal(t, []string{"3"}, bodies(got.Messages))

		m := got.Messages[0]
		require.Equal(t, sent[2].MessageID, m.MessageID)
		require.Equal(t, "q", m.Channel)
		require.Equal(t, &pb.QueueMessageAttributes{Timestamp: sent[2].SentAt, Sequence: 3, ReceiveCount: 1}, m.Attributes)
		require.Equal(t, &pb.QueueMessagePolicy{MaxReceiveCount: 1024}, m.Policy)
	})
}

func TestAnEmptyGetIsNoErrorAndItsTransactionIsClosed(t *testing.T) {
	c := startBroker(t, Config{})
	consumer := c.consumer()
	got := consumer.getWait("q", 1, 20*time.Millisecond)
	require.Empty(t, got.Messages)
	require.NotEmpty(t, got.TransactionId)
	consumer.settle(typeCloseByClient, got.TransactionId) // answers nothing
	_, closed := consumer.barrier(got.TransactionId)
	require.True(t, closed)
}

func TestMinWaitKeepsGetsWaiting(t *testing.T) {
	c := startBroker(t, Config{MinWait: waitLimit})
	consumer := c.consumer()
	id := consumer.startGet("q", 1, 0)
	c.waitFor("a waiting get", func() bool { return c.subscribers("q") == 1 })
	c.sendBodies("q", "1")
	require.Equal(t, id, consumer.receive().RefRequestId)
}

func TestAWaitingGetIsAnsweredWhenAMessageComes(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		consumer := c.consumer()
		id := consumer.startGet("q", 10, time.Hour)
		c.sendBodies("q", "1")
		response := consumer.receive()
		require.Equal(t, id, response.RefRequestId)
		require.Equal(t, []string{"1"}, bodies(response.Messages))
	})
}

func TestSettlementsDoNotStandBehindAWaitingGet(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1")
		consumer := c.consumer()
		got := consumer.get("q", 1)
		waiting := consumer.startGet("idle", 1, time.Hour)
		consumer.settle(typeAckAll, got.TransactionId)
		_, closed := consumer.barrier(got.TransactionId)
		require.True(t, closed)
		require.Zero(t, c.waiting("q"))
		c.sendBodies("idle", "late")
		require.Equal(t, waiting, consumer.receive().RefRequestId)
	})
}

func TestAnOpenTransactionCapturesNothing(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1")
	require.Len(t, c.consumer().get("q", 10).Messages, 1)
	c.sendBodies("q", "2", "3")
	require.Equal(t, []string{"2", "3"}, bodies(c.consumer().get("q", 10).Messages))
}

func TestAckRangeSettlesElementByElement(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2", "3", "4")
		consumer := c.consumer()
		tx := consumer.get("q", 4).TransactionId
		consumer.settle(typeAckRange, tx, 2, 1)
		open, _ := consumer.barrier(tx)
		require.Equal(t, []int64{3, 4}, open)

		consumer.settle(typeAckRange, tx, 3, 3, 4) // the second 3 is bad, 4 is not reached
		consumer.fails("r4", "invalid ack sequence id 3")
		open, _ = consumer.barrier(tx)
		require.Equal(t, []int64{4}, open)

		consumer.settle(typeAckRange, tx, 4)
		_, closed := consumer.barrier(tx)
		require.True(t, closed, "the last settlement closes the transaction")
		require.Zero(t, c.waiting("q"))
	})
}

func TestSettlementErrorsHaveTheOriginalTexts(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1", "2")
	consumer := c.consumer()
	closed := consumer.get("q", 1).TransactionId
	consumer.settle(typeAckAll, closed)
	open := consumer.get("q", 1).TransactionId

	tests := []struct {
		kind        pb.QueuesDownstreamRequestType
		transaction string
		sequences   []int64
		target      string
		want        string
	}{
		{typeAckAll, closed, nil, "", "cannot ack messages with closed response "},
		{typeAckRange, closed, []int64{1}, "", "cannot ack messages with closed response "},
		{typeAckRange, open, nil, "", "cannot ack empty list of of offsets"}, //nolint:dupword // the original's text
		{typeAckRange, open, []int64{0}, "", "invalid ack sequence id 0"},
		{typeAckRange, open, []int64{-9}, "", "invalid ack sequence id -9"},
		{typeNAckAll, closed, nil, "", "cannot nack messages with closed response "},
		{typeNAckRange, closed, nil, "", "cannot nack messages with closed response "},
		{typeNAckRange, open, nil, "", "cannot nack empty list of of offsets"}, //nolint:dupword // the original's text
		{typeNAckRange, open, []int64{1}, "", "invalid nack sequence id 1"},
		{typeReQueueAll, closed, nil, "x", "cannot ack messages with closed response "},
		{typeReQueueAll, open, nil, "", "cannot requeue messages with empty channel destination "},
		{typeReQueueAll, open, nil, "a b", "re-queue message with seq 2 failed, " + errQueueName.Error()},
		{typeReQueueRange, closed, nil, "x", "cannot requeue messages with closed response "},
		{typeReQueueRange, open, []int64{2}, "", "cannot requeue messages with empty channel destination "},
		{typeReQueueRange, open, nil, "x", "cannot requeue empty list of of offsets"}, //nolint:dupword // the original's text
		{typeReQueueRange, open, []int64{1}, "x", "invalid ack sequence id 1"},
		{typeActiveOffsets, closed, nil, "", "cannot get active offsets with closed response "},
		{typeAckAll, "", nil, "", "transaction is completed or transaction id not found"},
		{typeActiveOffsets, "7d444840-9dc0-11d1-b245-5ffdce74fad2", nil, "", "transaction is completed or transaction id not found"},
		{typeCloseByClient, "foreign", nil, "", "transaction is completed or transaction id not found"},
		{0, open, nil, "", "request unknown"},
		{pb.QueuesDownstreamRequestType_TransactionStatus, open, nil, "", "request unknown"},
		{pb.QueuesDownstreamRequestType_CloseByServer, open, nil, "", "request unknown"},
		{99, open, nil, "", "request unknown"},
	}
	for _, test := range tests {
		id := consumer.request(&pb.QueuesDownstreamRequest{
			RequestTypeData: test.kind, RefTransactionId: test.transaction,
			SequenceRange: test.sequences, ReQueueChannel: test.target,
		})
		response := consumer.receive()
		require.Equal(t, id, response.RefRequestId)
		require.True(t, response.IsError)
		require.Equal(t, test.want, response.Error, "%s %v", test.kind, test.sequences)
		kind := test.kind
		if test.want == "request unknown" {
			kind = 0
		}
		require.Equal(t, kind, response.RequestTypeData)
	}
	left, _ := consumer.barrier(open)
	require.Equal(t, []int64{2}, left, "no failed request settled anything")
}

func TestAForeignStreamCantSettle(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1")
	owner := c.consumer()
	tx := owner.get("q", 1).TransactionId
	other := c.consumer()
	other.settle(typeAckAll, tx)
	other.fails("r1", "transaction is completed or transaction id not found")
	open, _ := owner.barrier(tx)
	require.Equal(t, []int64{1}, open)
}

func TestGetErrors(t *testing.T) {
	c := startBroker(t, Config{})
	consumer := c.consumer()
	for _, name := range []string{"", "a b", "a\tb", "a\x00", "..", ".a", "a/b"} {
		id := consumer.startGet(name, 1, 0)
		response := consumer.receive()
		require.Equal(t, id, response.RefRequestId)
		require.Equal(t, errQueueName.Error(), response.Error)
		require.NotEmpty(t, response.TransactionId)
	}
	require.NoError(t, consumer.stream.Send(&pb.QueuesDownstreamRequest{
		RequestID: "x", RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q",
	}))
	require.Equal(t, errClientID.Error(), consumer.receive().Error)
}

func TestNackCountsAndGoesToTheTail(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2", "3")
		consumer := c.consumer()
		got := consumer.get("q", 2)
		consumer.settle(typeNAckAll, got.TransactionId)
		consumer.barrier(got.TransactionId)

		again := consumer.get("q", 10)
		require.Equal(t, []string{"3", "1", "2"}, bodies(again.Messages))
		require.Equal(t, []int64{3, 4, 5}, sequences(again.Messages))
		for i, count := range []int32{1, 2, 2} {
			require.Equal(t, count, again.Messages[i].Attributes.ReceiveCount)
		}
		require.Equal(t, got.Messages[0].MessageID, again.Messages[1].MessageID)
	})
}

func TestTheLastNackDeadLetters(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		poison := testMessage("q", "poison")
		poison.Metadata, poison.Tags = "meta", map[string]string{"k": "v"}
		poison.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 3, MaxReceiveQueue: "dead", ExpirationSeconds: 3600}
		sent := c.send(poison)[0]
		consumer := c.consumer()
		for count := range int32(3) {
			got := consumer.get("q", 1)
			require.Equal(t, count+1, got.Messages[0].Attributes.ReceiveCount)
			consumer.settle(typeNAckRange, got.TransactionId, sequences(got.Messages)...)
			consumer.barrier(got.TransactionId)
		}
		require.Zero(t, c.waiting("q"))
		letter := consumer.get("dead", 1)
		m := letter.Messages[0]
		require.Equal(t, []string{sent.MessageID, "poison", "meta", "dead"}, []string{m.MessageID, string(m.Body), m.Metadata, m.Channel})
		require.Equal(t, map[string]string{"k": "v"}, m.Tags)
		require.Equal(t, &pb.QueueMessagePolicy{}, m.Policy)
		require.True(t, m.Attributes.ReRouted)
		require.Equal(t, "q", m.Attributes.ReRoutedFromQueue)
		require.EqualValues(t, 1, m.Attributes.ReceiveCount)
		require.Equal(t, sent.ExpirationAt, m.Attributes.ExpirationAt)

		// A dead letter can be nacked for ever; sent anew it is an ordinary message.
		consumer.settle(typeNAckAll, letter.TransactionId)
		letter = consumer.get("dead", 1)
		require.EqualValues(t, 2, letter.Messages[0].Attributes.ReceiveCount)
		require.True(t, letter.Messages[0].Attributes.ReRouted)
		consumer.settle(typeReQueueAll, letter.TransactionId)
		m = consumer.get("moved", 1).Messages[0]
		require.False(t, m.Attributes.ReRouted)
		require.Empty(t, m.Attributes.ReRoutedFromQueue)
		require.EqualValues(t, 1, m.Attributes.ReceiveCount)
		require.Equal(t, &pb.QueueMessagePolicy{MaxReceiveCount: 1024}, m.Policy)
	})
}

func TestTheLastNackWithoutDeadLetterQueueDrops(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		m := testMessage("q", "x")
		m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1}
		c.send(m)
		consumer := c.consumer()
		got := consumer.get("q", 1)
		consumer.settle(typeNAckAll, got.TransactionId)
		_, closed := consumer.barrier(got.TransactionId)
		require.True(t, closed)
		require.Zero(t, c.waiting("q"))
	})
}

func TestRequeueStartsAgain(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		m := testMessage("q", "x")
		m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 9, MaxReceiveQueue: "dead", ExpirationSeconds: 3600}
		sent := c.send(m)[0]
		consumer := c.consumer()
		got := consumer.get("q", 1)
		consumer.settle(typeNAckAll, got.TransactionId)
		got = consumer.get("q", 1)
		require.EqualValues(t, 2, got.Messages[0].Attributes.ReceiveCount)
		consumer.settle(typeReQueueRange, got.TransactionId, sequences(got.Messages)...)
		consumer.barrier(got.TransactionId)

		moved := consumer.get("moved", 1).Messages[0]
		require.Equal(t, sent.MessageID, moved.MessageID)
		require.EqualValues(t, 1, moved.Attributes.ReceiveCount)
		require.Greater(t, moved.Attributes.ExpirationAt, sent.ExpirationAt, "counts from now")
		require.Equal(t, &pb.QueueMessagePolicy{MaxReceiveCount: 9, MaxReceiveQueue: "dead", ExpirationSeconds: 3600}, moved.Policy)
		require.Zero(t, c.waiting("q"))
	})
}

func TestAutoAckIsDurableAndClosesTheTransaction(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2")
		consumer := c.consumer()
		consumer.request(&pb.QueuesDownstreamRequest{
			RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 5, AutoAck: true,
		})
		got := consumer.receive()
		require.Equal(t, []string{"1", "2"}, bodies(got.Messages))
		require.Zero(t, c.waiting("q"))
		consumer.settle(typeAckAll, got.TransactionId)
		consumer.fails("r2", "cannot ack messages with closed response ")
	})
}

func TestTheEndOfAStreamReleasesInOrderWithTheSameCount(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2", "3", "4", "5")
		first, second := c.consumer(), c.consumer()
		first.get("q", 1)
		second.get("q", 1)
		first.get("q", 2)
		other := c.consumer()
		other.get("q", 1) // so that nothing is ready
		got := other.startGet("q", 10, time.Hour)
		first.cancel()
		response := other.receive()
		require.Equal(t, got, response.RefRequestId)
		seen := bodies(response.Messages)
		for len(seen) < 3 { // a waiting Get may be quicker than the rest
			seen = append(seen, bodies(other.getWait("q", 10, time.Hour).Messages)...)
		}
		require.Equal(t, []string{"1", "3", "4"}, seen)
		require.EqualValues(t, 1, response.Messages[0].Attributes.ReceiveCount)
		second.cancel()
		require.Equal(t, []string{"2"}, bodies(other.getWait("q", 10, time.Hour).Messages))
	})
}

func TestCloseByClientReleases(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1", "2", "3")
	consumer := c.consumer()
	got := consumer.get("q", 2)
	consumer.settle(typeAckRange, got.TransactionId, 1)
	consumer.settle(typeCloseByClient, got.TransactionId)
	again := consumer.get("q", 5)
	require.Equal(t, []string{"2", "3"}, bodies(again.Messages))
	require.EqualValues(t, 1, again.Messages[0].Attributes.ReceiveCount)
}

func TestAMessageIsNotHandedToAClientThatIsGone(t *testing.T) {
	c := startBroker(t, Config{})
	gone := c.consumer()
	for _, autoAck := range []bool{true, false} {
		gone.request(&pb.QueuesDownstreamRequest{
			RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 1, WaitTimeout: 3_600_000, AutoAck: autoAck,
		})
	}
	c.waitFor("two waiting gets", func() bool { return c.subscribers("q") == 2 })
	gone.cancel()
	c.waitFor("no waiting gets", func() bool { return c.subscribers("q") == 0 })
	c.sendBodies("q", "1")
	require.Equal(t, []string{"1"}, c.peek("q"))
}

func TestHalfClosingDoesNotEndAStream(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1")
	consumer := c.consumer()
	id := consumer.startGet("other", 1, time.Hour)
	require.NoError(t, consumer.stream.CloseSend())
	c.sendBodies("other", "late")
	require.Equal(t, id, consumer.receive().RefRequestId)
}

func TestALargeBacklogComesInAnswersThatClientsAccept(t *testing.T) {
	c := startBroker(t, Config{})
	body := string(make([]byte, 1<<20))
	c.sendBodies("q", body, body, body, body, body)
	c.send(testMessage("q", string(make([]byte, 6<<20))))
	consumer := c.consumer()
	require.Len(t, consumer.get("q", 10).Messages, 3, "4 MiB is what clients accept by default")
	require.Len(t, consumer.get("q", 10).Messages, 2)
	require.Len(t, consumer.get("q", 10).Messages, 1, "a larger one comes alone")
}

func TestUnansweredGetsOfAStreamAreBounded(t *testing.T) {
	c := startBroker(t, Config{})
	consumer := c.consumer()
	for range maxStreamGets {
		consumer.startGet("q", 1, time.Hour)
	}
	id := consumer.startGet("q", 1, time.Hour)
	consumer.fails(id, "broker: too many unanswered gets on the stream (limit "+strconv.Itoa(maxStreamGets)+")")
}

func TestStopEndsStreamsWithUnavailable(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("q", "1")
	consumer := c.consumer()
	consumer.get("q", 1)
	consumer.startGet("q", 1, time.Hour)
	require.NoError(t, c.broker.Stop())
	_, err := consumer.stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
}
