package broker

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// Short names for the requests of the older stream.
const (
	typeReceive      = pb.StreamRequestType_ReceiveMessage
	typeAck          = pb.StreamRequestType_AckMessage
	typeReject       = pb.StreamRequestType_RejectMessage
	typeVisibility   = pb.StreamRequestType_ModifyVisibility
	typeResend       = pb.StreamRequestType_ResendMessage
	typeSendModified = pb.StreamRequestType_SendModifiedMessage
)

// fakeStream is a StreamQueueMessage stream without network, for tests with a
// fake clock.
type fakeStream struct {
	grpc.ServerStream
	t         *testing.T
	cancel    context.CancelFunc
	requests  chan *pb.StreamQueueMessagesRequest
	responses chan *pb.StreamQueueMessagesResponse
	ended     chan error // what the handler returned
	context   func() context.Context
	last      int
}

func (f *fakeStream) Context() context.Context { return f.context() }

func (f *fakeStream) Send(r *pb.StreamQueueMessagesResponse) error {
	select {
	case f.responses <- r:
		return nil
	case <-f.Context().Done():
		return f.Context().Err()
	}
}

func (f *fakeStream) Recv() (*pb.StreamQueueMessagesRequest, error) {
	select {
	case r, more := <-f.requests:
		if !more {
			return nil, io.EOF
		}
		return r, nil
	case <-f.Context().Done():
		return nil, f.Context().Err()
	}
}

// stream opens a stream and requires nothing of its end.
func (qs *testQueues) stream() *fakeStream {
	ctx, cancel := context.WithCancel(qs.t.Context())
	f := &fakeStream{
		t:         qs.t,
		cancel:    cancel,
		requests:  make(chan *pb.StreamQueueMessagesRequest),
		responses: make(chan *pb.StreamQueueMessagesResponse, 1),
		ended:     make(chan error, 1),
		context:   func() context.Context { return ctx },
	}
	service := &service{queues: qs.queues}
	go func() {
		f.ended <- service.StreamQueueMessage(f)
		cancel()
	}()
	return f
}

// ask sends a request and returns its answer.
func (f *fakeStream) ask(r *pb.StreamQueueMessagesRequest) *pb.StreamQueueMessagesResponse {
	f.t.Helper()
	f.post(r)
	response := <-f.responses
	require.Equal(f.t, r.RequestID, response.RequestID)
	require.Equal(f.t, r.StreamRequestTypeData, response.StreamRequestTypeData)
	return response
}

func (f *fakeStream) post(r *pb.StreamQueueMessagesRequest) {
	f.last++
	r.RequestID = strconv.Itoa(f.last)
	r.ClientID = "test"
	f.requests <- r
}

// receive takes the next message of a queue.
func (f *fakeStream) receive(queue string, visibility int32) *pb.QueueMessage {
	f.t.Helper()
	response := f.ask(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReceive, Channel: queue, VisibilitySeconds: visibility, WaitTimeSeconds: 3600})
	require.False(f.t, response.IsError, response.Error)
	return response.Message
}

// settles requires that a request succeeds and ends the stream.
func (f *fakeStream) settles(r *pb.StreamQueueMessagesRequest) {
	f.t.Helper()
	response := f.ask(r)
	require.False(f.t, response.IsError, response.Error)
	require.Nil(f.t, response.Message)
	require.NoError(f.t, <-f.ended)
}

func TestOneMessageIsReceivedAndAcked(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "1"), testMessage("q", "2"))
		f := qs.stream()
		m := f.receive("q", 0)
		require.Equal(t, "1", string(m.Body))
		require.Equal(t, "q", m.Channel)
		require.EqualValues(t, 1, m.Attributes.ReceiveCount)
		f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeAck, RefSequence: m.Attributes.Sequence})
		got, _ := qs.take("q", 10, 0)
		require.Equal(t, []string{"2"}, got)
		require.Equal(t, 1, qs.stored())
	})
}

func TestOneMessageIsWaitedFor(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		f := qs.stream()
		f.post(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: 10})
		pass(5 * time.Second)
		qs.send(testMessage("q", "1"))
		require.Equal(t, "1", string((<-f.responses).Message.Body))
		f.cancel()
		require.Error(t, <-f.ended)
	})
}

func TestNoMessageEndsTheStream(t *testing.T) {
	for wait, want := range map[int32]time.Duration{0: time.Second, 7: 7 * time.Second} {
		inBubble(t, Config{}, func(qs *testQueues) {
			t := qs.t
			start := time.Now()
			f := qs.stream()
			response := f.ask(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: wait})
			require.True(t, response.IsError)
			require.Equal(t, "Error 138: no new message in queue, wait time expired", response.Error)
			require.NoError(t, <-f.ended)
			require.Equal(t, want, time.Since(start))
		})
	}
}

// oneMessageCounts are the ways in which a message comes back one attempt older.
var oneMessageCounts = map[string]func(f *fakeStream, m *pb.QueueMessage){
	"reject": func(f *fakeStream, m *pb.QueueMessage) {
		f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReject, RefSequence: m.Attributes.Sequence})
	},
	"visibility": func(f *fakeStream, _ *pb.QueueMessage) {
		start := time.Now()
		response := <-f.responses
		require.True(f.t, response.IsError)
		require.Equal(f.t, "Error 129: current visibility timer expired", response.Error)
		require.Equal(f.t, 5*time.Second, time.Since(start))
		require.NoError(f.t, <-f.ended)
	},
	"cancel": func(f *fakeStream, _ *pb.QueueMessage) {
		f.cancel()
		require.Error(f.t, <-f.ended)
	},
	"half-close": func(f *fakeStream, _ *pb.QueueMessage) {
		close(f.requests)
		require.NoError(f.t, <-f.ended)
	},
}

func TestAMessageThatIsNotAckedIsCountedAndDeadLettered(t *testing.T) {
	for name, giveBack := range oneMessageCounts {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(qs *testQueues) {
				t := qs.t
				m := testMessage("q", "x")
				m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 3, MaxReceiveQueue: "dead"}
				qs.send(m, testMessage("q", "other"))
				for attempt := range 3 {
					f := qs.stream()
					received := f.receive("q", 5)
					require.Equal(t, "x", string(received.Body))
					require.EqualValues(t, attempt+1, received.Attributes.ReceiveCount)
					giveBack(f, received)
					synctest.Wait()
					// It went to the tail.
					_, other := qs.take("q", 1, 0)
					require.Equal(t, "q", other[0].queue.name)
					_, err := qs.nack(other)
					require.NoError(t, err)
					synctest.Wait()
				}
				f := qs.stream()
				dead := f.receive("dead", 0)
				require.Equal(t, "x", string(dead.Body))
				require.True(t, dead.Attributes.ReRouted)
				require.Equal(t, "q", dead.Attributes.ReRoutedFromQueue)
				f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeAck, RefSequence: dead.Attributes.Sequence})
				got, _ := qs.take("q", 10, 0)
				require.Equal(t, []string{"other"}, got)
			})
		})
	}
}

func TestAStopOfTheBrokerIsNotCounted(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "x"))
		f := qs.stream()
		f.receive("q", 0)
		qs.stopping.Store(true)
		f.cancel()
		require.Error(t, <-f.ended)
		_, deliveries := qs.take("q", 1, 0)
		require.Zero(t, deliveries[0].count)
	})
}

func TestAStreamThatEndsWhileItWaitsTakesNothing(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		f := qs.stream()
		f.post(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: 10})
		synctest.Wait()
		f.cancel()
		require.Error(t, <-f.ended)
		qs.send(testMessage("q", "x"))
		_, deliveries := qs.take("q", 1, 0)
		require.Len(t, deliveries, 1)
		require.Zero(t, deliveries[0].count)
	})
}

func TestVisibilityIsModified(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "x"))
		f := qs.stream()
		f.receive("q", 5)
		pass(4 * time.Second)
		response := f.ask(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeVisibility, VisibilitySeconds: 20})
		require.False(t, response.IsError, response.Error)
		start := time.Now()
		require.Equal(t, errNotVisible.Error(), (<-f.responses).Error)
		require.Equal(t, 20*time.Second, time.Since(start))
		require.NoError(t, <-f.ended)
	})
}

func TestVisibilityHasADefault(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "x"))
		f := qs.stream()
		f.receive("q", 0)
		start := time.Now()
		require.Equal(t, errNotVisible.Error(), (<-f.responses).Error)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, <-f.ended)
	})
}

func TestAMessageIsResent(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		m := testMessage("q", "x")
		m.MessageID = "id"
		m.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 60}
		qs.send(m)
		first := qs.stream()
		seq := first.receive("q", 0).Attributes.Sequence
		first.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReject, RefSequence: seq})
		f := qs.stream()
		require.EqualValues(t, 2, f.receive("q", 0).Attributes.ReceiveCount)
		pass(30 * time.Second)
		f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeResend, Channel: "other"})
		moved := qs.stream()
		got := moved.receive("other", 0)
		require.Equal(t, "id", got.MessageID)
		require.EqualValues(t, 1, got.Attributes.ReceiveCount)
		require.Equal(t, time.Now().Add(time.Minute).UnixNano(), got.Attributes.ExpirationAt)
		moved.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeAck, RefSequence: got.Attributes.Sequence})
		require.Zero(t, qs.stored())
	})
}

func TestAModifiedMessageTakesItsPlace(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "old"))
		f := qs.stream()
		f.receive("q", 0)
		f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeSendModified, ModifiedMessage: delayed("other", "new", 5, 0)})
		require.Equal(t, 1, qs.stored())
		got, _ := qs.take("other", 1, 0)
		require.Empty(t, got, "it is delayed")
		pass(5 * time.Second)
		got, _ = qs.take("other", 1, 0)
		require.Equal(t, []string{"new"}, got)
		require.Zero(t, qs.infos("q")[0].Waiting)
	})
}

func TestAModifiedMessageIsSentAlsoIfTheQueueIsGone(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "old"))
		f := qs.stream()
		f.receive("q", 0)
		require.NoError(t, qs.deleteChannel(channelKey{kind: kindQueues, name: "q"}).wait(t.Context()))
		f.settles(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeSendModified, ModifiedMessage: testMessage("other", "new")})
		got, _ := qs.take("other", 1, 0)
		require.Equal(t, []string{"new"}, got)
	})
}

// TestACopyAndItsRemovalAreOneCommit fails the write: neither must have happened.
func TestACopyAndItsRemovalAreOneCommit(t *testing.T) {
	for name, request := range map[string]*pb.StreamQueueMessagesRequest{
		"ack":      {StreamRequestTypeData: typeAck, RefSequence: 1},
		"reject":   {StreamRequestTypeData: typeReject, RefSequence: 1},
		"resend":   {StreamRequestTypeData: typeResend, Channel: "other"},
		"modified": {StreamRequestTypeData: typeSendModified, ModifiedMessage: testMessage("other", "new")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(qs *testQueues) {
				t := qs.t
				qs.send(testMessage("q", "old"))
				f := qs.stream()
				f.receive("q", 0)
				broken := &countingStore{store: qs.store}
				qs.journal.store = broken
				f.post(request)
				response := <-f.responses
				require.Equal(t, "Error 123: cannot ack the current message", response.Error)
				require.NoError(t, <-f.ended)
				require.Equal(t, 1, broken.commits, "one commit")
				require.Equal(t, 1, qs.stored())
			})
		})
	}
}

// countingStore fails to write and counts the attempts.
type countingStore struct {
	store
	commits int
}

func (s *countingStore) commit([]mutation) error {
	s.commits++
	return errors.New("disk full")
}

func TestErrorsOfTheOlderStreamLeaveItOpen(t *testing.T) {
	type request = pb.StreamQueueMessagesRequest
	tests := []struct {
		want    error
		request *request
	}{
		{errStreamType, &request{}},
		{errNothingToAck, &request{StreamRequestTypeData: typeAck, RefSequence: 1}},
		{errNothingToReject, &request{StreamRequestTypeData: typeReject, RefSequence: 1}},
		{errNothingToSend, &request{StreamRequestTypeData: typeResend, Channel: "x"}},
		{errNothingToSend, &request{StreamRequestTypeData: typeSendModified}},
		{errNotVisible, &request{StreamRequestTypeData: typeVisibility, VisibilitySeconds: 1}},
		{errVisibility, &request{StreamRequestTypeData: typeVisibility, VisibilitySeconds: -1}},
		{errQueueName, &request{StreamRequestTypeData: typeReceive, Channel: "a b"}},
		{errVisibility, &request{StreamRequestTypeData: typeReceive, Channel: "q", VisibilitySeconds: 43_201}},
		{errWaitTimeout, &request{StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: 3_601}},
	}
	held := []struct {
		want    error
		request *request
	}{
		{errReceiving, &request{StreamRequestTypeData: typeReceive, Channel: "q"}},
		{errAckSequence, &request{StreamRequestTypeData: typeAck}},
		{errAckSequence, &request{StreamRequestTypeData: typeAck, RefSequence: 2}},
		{errAckSequence, &request{StreamRequestTypeData: typeReject, RefSequence: 2}},
		{errQueueName, &request{StreamRequestTypeData: typeResend}},
		{errNoModified, &request{StreamRequestTypeData: typeSendModified}},
		{errMessageEmpty, &request{StreamRequestTypeData: typeSendModified, ModifiedMessage: testMessage("q", "")}},
	}
	inBubble(t, Config{MaxQueues: 1}, func(qs *testQueues) {
		t := qs.t
		f := qs.stream()
		for _, test := range tests {
			require.Equal(t, test.want.Error(), f.ask(test.request).Error)
		}
		noClient := &request{StreamRequestTypeData: typeReceive, Channel: "q"}
		f.requests <- noClient
		require.Equal(t, errClientID.Error(), (<-f.responses).Error)

		qs.send(testMessage("q", "x"))
		f.receive("q", 0)
		for _, test := range held {
			require.Equal(t, test.want.Error(), f.ask(test.request).Error)
		}
		full := f.ask(&request{StreamRequestTypeData: typeResend, Channel: "other"})
		require.Equal(t, "Error 130: error during send message to queue: broker: too many queues (limit 1)", full.Error)
		full = f.ask(&request{StreamRequestTypeData: typeSendModified, ModifiedMessage: testMessage("other", "x")})
		require.Equal(t, "Error 130: error during send message to queue: broker: too many queues (limit 1)", full.Error)
		f.settles(&request{StreamRequestTypeData: typeAck, RefSequence: 1})
	})
}

func TestAFullWaitingRoomRefusesTheOlderStreamToo(t *testing.T) {
	inBubble(t, Config{MaxWaiting: 1}, func(qs *testQueues) {
		t := qs.t
		waiting := qs.takeLater(1)
		f := qs.stream()
		response := f.ask(&pb.StreamQueueMessagesRequest{StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: 1})
		require.Equal(t, "broker: too many waiting requests (limit 1)", response.Error)
		f.cancel()
		require.Error(t, <-f.ended)
		qs.send(testMessage("q", "x"))
		require.Equal(t, []string{"x"}, <-waiting)
	})
}

// TestOneMessageOverTheNetwork checks how the stream ends for a real client.
func TestOneMessageOverTheNetwork(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.send(testMessage("q", "x"))
		receive := &pb.StreamQueueMessagesRequest{RequestID: "r", ClientID: "test", StreamRequestTypeData: typeReceive, Channel: "q", WaitTimeSeconds: 3600}

		ctx, cancel := context.WithCancel(t.Context())
		crashed, err := c.StreamQueueMessage(ctx)
		require.NoError(t, err)
		require.NoError(t, crashed.Send(receive))
		_, err = crashed.Recv()
		require.NoError(t, err)
		cancel()

		stream, err := c.StreamQueueMessage(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(receive))
		response, err := stream.Recv()
		require.NoError(t, err)
		require.EqualValues(t, 2, response.Message.Attributes.ReceiveCount)
		require.NoError(t, stream.Send(&pb.StreamQueueMessagesRequest{
			StreamRequestTypeData: typeAck, RefSequence: response.Message.Attributes.Sequence,
		}))
		response, err = stream.Recv()
		require.NoError(t, err)
		require.False(t, response.IsError, response.Error)
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		require.Zero(t, c.waiting("q"))
	})
}
