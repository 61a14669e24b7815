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

// briefly is a wait that ends without a message; patiently is one that doesn't.
const (
	briefly   = 60 * time.Millisecond
	patiently = time.Minute
)

func startQuirky(t *testing.T, quirks Quirks) *client {
	t.Helper()
	return startBroker(t, Config{Quirks: quirks})
}

// none requires that "q" has nothing for a Get, for a while.
func (c *consumer) none() {
	c.t.Helper()
	require.Empty(c.t, c.getWait("q", 1, briefly).Messages)
}

// one requires a message from a Get for one.
func (c *consumer) one(queue, body string) *pb.QueuesDownstreamResponse {
	c.t.Helper()
	got := c.getWait(queue, 1, patiently)
	require.Equal(c.t, []string{body}, bodies(got.Messages))
	return got
}

// ack settles all of a transaction and waits until that took effect.
func (c *consumer) ack(got *pb.QueuesDownstreamResponse) {
	c.t.Helper()
	c.settle(typeAckAll, got.TransactionId)
	_, closed := c.barrier(got.TransactionId)
	require.True(c.t, closed)
}

// members waits until so many Gets and transactions are at a queue.
func (c *client) members(queue string, n int64) {
	c.t.Helper()
	c.waitFor(strconv.FormatInt(n, 10)+" members", func() bool { return c.subscribers(queue) == n })
}

func TestQuirkAGetWaitsForItsWholeBatch(t *testing.T) {
	t.Parallel()
	const minWait = 300 * time.Millisecond
	c := startBroker(t, Config{MinWait: minWait, Quirks: Quirks{FullBatchWait: true}})
	c.sendBodies("q", "1", "2")
	consumer := c.consumer()
	begun := time.Now()
	consumer.startGet("q", 3, 0)
	c.members("q", 1)
	other := c.consumer()
	require.Empty(t, other.get("q", 1).Messages, "what the first Get collects is hidden")
	require.Equal(t, []string{"1", "2"}, bodies(consumer.receive().Messages))
	require.GreaterOrEqual(t, time.Since(begun), minWait, "although it asked for no wait")

	c.sendBodies("full", "1")
	consumer.one("full", "1") // at once
}

func TestQuirkAWaitingGetIsAnsweredWhenItIsFull(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, AllQuirks())
	consumer := c.consumer()
	consumer.startGet("q", 2, patiently)
	c.members("q", 1)
	c.sendBodies("q", "1")
	c.sendBodies("q", "2")
	require.Equal(t, []string{"1", "2"}, bodies(consumer.receive().Messages))
}

func TestQuirkATransactionWithRoomCapturesMessages(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{Capture: true})
	c.sendBodies("q", "0")
	busy, idle := c.consumer(), c.consumer()
	held := busy.get("q", 10)
	require.Len(t, held.Messages, 1)
	c.sendBodies("q", "1", "2", "3", "4", "5")
	idle.none()
	require.Empty(t, c.peek("q"))
	require.EqualValues(t, 6, c.waiting("q"))
	open, _ := busy.barrier(held.TransactionId)
	require.Equal(t, []int64{1}, open, "its client does not see them either")
	busy.ack(held)
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, bodies(idle.get("q", 10).Messages))
}

func TestQuirkAFullTransactionCapturesNothing(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{Capture: true})
	c.sendBodies("q", "0", "1")
	busy, idle := c.consumer(), c.consumer()
	held := busy.get("q", 2)
	c.sendBodies("q", "2", "3")
	idle.one("q", "2")
	// The first ack makes room.
	busy.settle(typeAckRange, held.TransactionId, 1)
	busy.barrier(held.TransactionId)
	idle.none()
	busy.settle(typeCloseByClient, held.TransactionId)
	busy.barrier(held.TransactionId)
	idle.one("q", "1")
	idle.one("q", "3")
}

// TestQuirkAcksSteal: with a moment between ack and next Get, every second message
// goes to who is busy.
func TestQuirkAcksSteal(t *testing.T) {
	t.Parallel()
	const parkTime = 20 * time.Millisecond
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: parkTime})
	c.sendBodies("q", "0", "1", "2", "3", "4", "5")
	busy, worker := c.consumer(), c.consumer()
	held := busy.one("q", "0")
	for _, body := range []string{"1", "3", "5"} {
		worker.ack(worker.one("q", body))
		<-time.After(3 * parkTime)
	}
	worker.none()
	require.EqualValues(t, 3, c.waiting("q"))
	busy.ack(held)
	require.Equal(t, []string{"2", "4"}, bodies(worker.getWait("q", 2, patiently).Messages))
}

func TestQuirkAStolenMessageGoesToAGetThatComesSoon(t *testing.T) {
	t.Parallel()
	const parkTime = 200 * time.Millisecond
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: parkTime})
	c.sendBodies("q", "0", "1", "2")
	busy, worker := c.consumer(), c.consumer()
	busy.one("q", "0")
	begun := time.Now()
	worker.ack(worker.one("q", "1"))
	worker.one("q", "2")
	require.GreaterOrEqual(t, time.Since(begun), parkTime)
}

func TestQuirkAMemberAloneStealsNothingForLong(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: patiently})
	c.sendBodies("q", "1", "2")
	worker := c.consumer()
	worker.ack(worker.one("q", "1"))
	worker.one("q", "2")
}

func TestQuirkNacksSteal(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: time.Millisecond})
	c.sendBodies("q", "0", "1")
	busy, worker := c.consumer(), c.consumer()
	held := busy.one("q", "0")
	nacked := worker.one("q", "1")
	worker.settle(typeNAckAll, nacked.TransactionId)
	worker.none()
	busy.ack(held)
	again := worker.one("q", "1")
	require.EqualValues(t, 2, again.Messages[0].Attributes.ReceiveCount)
}

func TestQuirkWhatADeadConsumerHeldGoesToABusyOne(t *testing.T) {
	t.Parallel()
	const parkTime = 20 * time.Millisecond
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: parkTime})
	c.sendBodies("q", "0", "1")
	dead, busy, idle := c.consumer(), c.consumer(), c.consumer()
	dead.one("q", "0")
	held := busy.one("q", "1")
	dead.cancel()
	c.members("q", 1)
	<-time.After(3 * parkTime)
	idle.none()
	busy.ack(held)
	got := idle.one("q", "0")
	require.EqualValues(t, 1, got.Messages[0].Attributes.ReceiveCount, "a crash does not count")
}

func TestQuirkAWaitingGetSavesWhatADeadConsumerHeld(t *testing.T) {
	t.Parallel()
	const parkTime = 200 * time.Millisecond
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: parkTime})
	c.sendBodies("q", "0", "1")
	dead, busy, idle := c.consumer(), c.consumer(), c.consumer()
	dead.one("q", "0")
	busy.one("q", "1")
	idle.startGet("q", 1, patiently)
	c.members("q", 3)
	begun := time.Now()
	dead.cancel()
	require.Equal(t, []string{"0"}, bodies(idle.receive().Messages))
	require.GreaterOrEqual(t, time.Since(begun), parkTime)
}

func TestQuirkTheNextGetTakesAllThatWasLeftBehind(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{Stealing: true, ParkTime: time.Millisecond})
	c.sendBodies("q", "0", "1", "2")
	dead, first, second := c.consumer(), c.consumer(), c.consumer()
	require.Len(t, dead.get("q", 3).Messages, 3)
	dead.cancel()
	c.members("q", 0)
	held := first.one("q", "0")
	second.none()
	first.ack(held)
	require.Equal(t, []string{"1", "2"}, bodies(second.getWait("q", 2, patiently).Messages))
}

func TestQuirkSettlementsStandBehindAWaitingGet(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{SerialStreams: true})
	c.sendBodies("q", "1")
	consumer := c.consumer()
	held := consumer.get("q", 1)
	waiting := consumer.startGet("idle", 1, patiently)
	consumer.settle(typeAckAll, held.TransactionId)
	barrier := consumer.request(&pb.QueuesDownstreamRequest{
		RequestTypeData: typeActiveOffsets, RefTransactionId: held.TransactionId,
	})
	c.waitFor("a waiting Get", func() bool { return c.subscribers("idle") == 1 })
	<-time.After(briefly)
	require.EqualValues(t, 1, c.waiting("q"))
	c.sendBodies("idle", "x")
	require.Equal(t, waiting, consumer.receive().RefRequestId)
	require.Equal(t, barrier, consumer.receive().RefRequestId)
	require.Zero(t, c.waiting("q"))
}

func TestQuirkADeadAutoAckGetConsumesMessages(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]Quirks{"alone": {DeadGets: true}, "with all": AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startQuirky(t, quirks)
			dead := c.consumer()
			dead.request(&pb.QueuesDownstreamRequest{
				RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 1,
				WaitTimeout: int32(patiently / time.Millisecond), AutoAck: true,
			})
			c.members("q", 1)
			dead.cancel()
			require.NoError(t, dead.conn.Close())
			c = connect(t, c.broker)
			<-time.After(briefly) // the broker knows by now that it is gone
			require.EqualValues(t, 1, c.subscribers("q"))
			c.sendBodies("q", "1")
			c.waitFor("the loss", func() bool { return c.waiting("q") == 0 })
		})
	}
}

func TestQuirkADeadGetHoldsWhatItsStreamHad(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{DeadGets: true})
	c.sendBodies("q", "1")
	dead, idle := c.consumer(), c.consumer()
	dead.one("q", "1")
	begun := time.Now()
	const wait = 300 * time.Millisecond
	dead.startGet("elsewhere", 1, wait)
	c.members("elsewhere", 1)
	dead.cancel()
	idle.one("q", "1")
	require.GreaterOrEqual(t, time.Since(begun), wait)
}

func TestQuirkStopEndsDeadGets(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, AllQuirks())
	dead := c.consumer()
	dead.startGet("q", 1, patiently)
	c.members("q", 1)
	dead.cancel()
	begun := time.Now()
	require.NoError(t, c.broker.Stop())
	require.Less(t, time.Since(begun), waitLimit)
}

// TestQuirkOnlyTheOldestDelayedMessagesArrive: those that were sent first hold up
// those that are due first, whatever their queues.
func TestQuirkOnlyTheOldestDelayedMessagesArrive(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{Quirks: Quirks{DelayWindow: true}}, func(qs *testQueues) {
		t := qs.t
		start := time.Now()
		early := make([]*pb.QueueMessage, 1100)
		for i := range early {
			early[i] = delayed("other", "x", 40, 0)
		}
		qs.send(early...)
		qs.send(delayed("q", "held up", 1, 0))
		got, _ := qs.take("q", 1, time.Hour)
		require.Equal(t, []string{"held up"}, got)
		require.Equal(t, 40*time.Second, time.Since(start))
	})
}

func TestQuirkADelayedMessageReplacesOneOfItsID(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{Quirks: Quirks{DelayIndex: true}}, func(qs *testQueues) {
		t := qs.t
		one := func(body string, delay int32) *pb.QueueMessage {
			m := delayed("q", body, delay, 0)
			m.MessageID = "same"
			return m
		}
		qs.send(one("first", 1), one("second", 1), delayed("q", "other", 2, 0))
		qs.send(one("third", 3))
		pass(5 * time.Second)
		got, _ := qs.take("q", 10, 0)
		require.Equal(t, []string{"other", "third"}, got)
		require.Equal(t, 2, qs.stored())

		qs.send(one("fourth", 1))
		pass(time.Second)
		require.Equal(t, 3, qs.stored(), "one that has arrived is not replaced")
	})
}

func TestQuirkAnswersToUpstreamRequestsGetLost(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{LostResponses: true, LoseEvery: 2})
	stream, err := c.QueuesUpstream(t.Context())
	require.NoError(t, err)
	requests := [][]*pb.QueueMessage{
		{testMessage("q", "0")},
		{testMessage("q", "1"), testMessage("q", "2")}, // is not counted
		{testMessage("q", "3")},                        // gets lost
		{testMessage("q", "4")},
	}
	for i, messages := range requests {
		require.NoError(t, stream.Send(&pb.QueuesUpstreamRequest{RequestID: strconv.Itoa(i), Messages: messages}))
	}
	for _, id := range []string{"0", "1", "3"} {
		response, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, id, response.RefRequestID)
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, c.peek("q"), "all are stored")
}

func TestQuirkLowLimits(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{LowLimits: true})
	for _, test := range []struct {
		policy *pb.QueueMessagePolicy
		want   string
	}{
		{&pb.QueueMessagePolicy{DelaySeconds: 43_200}, ""},
		{&pb.QueueMessagePolicy{DelaySeconds: 43_201}, errDelay.Error()},
		{&pb.QueueMessagePolicy{ExpirationSeconds: 43_200}, ""},
		{&pb.QueueMessagePolicy{ExpirationSeconds: 43_201}, errExpiration.Error()},
	} {
		m := testMessage("q", "x")
		m.Policy = test.policy
		result, err := c.SendQueueMessage(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, test.want, result.Error)
	}
}

func TestQuirkNobodyAnswersTheInternalChannel(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{NoInternalChannel: true})
	request := &pb.Request{
		ClientID: "test", Channel: internalChannel, RequestTypeData: pb.Request_Query,
		Metadata: "list-channels", Tags: map[string]string{"channel_type": "queues"}, Timeout: 50,
	}
	begun := time.Now()
	_, err := c.SendRequest(t.Context(), request)
	require.GreaterOrEqual(t, time.Since(begun), 50*time.Millisecond)
	require.Equal(t, codes.Internal, status.Code(err))
	require.ErrorContains(t, err, "Error 301: timeout for request message")
	request.Timeout = 0
	_, err = c.SendRequest(t.Context(), request)
	require.ErrorContains(t, err, "Error 109")
}

func TestQuirksHaveTheOriginalsNumbers(t *testing.T) {
	t.Parallel()
	config := Config{Quirks: AllQuirks()}.withDefaults()
	require.Equal(t, time.Second, config.MinWait)
	require.Equal(t, 12*time.Hour, config.MaxDelay)
	require.Equal(t, 12*time.Hour, config.MaxExpiration)
	require.Equal(t, 100*time.Millisecond, config.Quirks.ParkTime)
	require.Equal(t, 10_000, config.Quirks.LoseEvery)
	require.Zero(t, Config{}.withDefaults().MinWait)

	_, err := New(Config{Quirks: Quirks{LoseEvery: -1}})
	require.ErrorContains(t, err, "quirks")
}
