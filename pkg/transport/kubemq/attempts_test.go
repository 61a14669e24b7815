package kubemq

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestNotesGoWithTheirMessage: whatever settles it, nothing is left of its notes.
func TestNotesGoWithTheirMessage(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(d transport.Delivery) error{
		"ack":     func(d transport.Delivery) error { return d.Ack(t.Context()) },
		"nack":    func(d transport.Delivery) error { return d.Nack(t.Context()) },
		"requeue": func(d transport.Delivery) error { return d.Requeue(t.Context(), 0) },
		"release": func(d transport.Delivery) error { return d.Release(t.Context()) },
		"dead letter": func(d transport.Delivery) error {
			return d.DeadLetter(t.Context(), transport.DeadLetter{Queue: "dead"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategySingle})
			require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
			d := received(t, opened(t, tr, "q"), 1)[0].(*delivery)
			_, err := d.NoteStart(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(1), depth(t, tr, d.notesChannel()))
			require.NoError(t, settle(d))
			within(t, func() bool { return depth(t, tr, d.notesChannel()) == 0 }, "the note is removed")
		})
	}
}

// depth is how many messages a channel holds.
func depth(t *testing.T, tr *Transport, channel string) int64 {
	t.Helper()
	queues, err := tr.publisher.Queues(t.Context(), channel)
	require.NoError(t, err)
	if len(queues) == 0 {
		return 0
	}
	return queues[0].Depth
}

// TestNotesExpire: those of a worker that died go by themselves.
// notesServer stores notes and never says so, and tells of another queue when it is
// asked for one.
type notesServer struct {
	fakeServer
	taken atomic.Int32
}

func (s *notesServer) QueuesInfo(context.Context, *pb.QueuesInfoRequest) (*pb.QueuesInfoResponse, error) {
	return &pb.QueuesInfoResponse{Info: &pb.QueuesInfo{Queues: []*pb.QueueInfo{{Name: "other", Messages: 9, Waiting: 9}}}}, nil
}

func (s *notesServer) ReceiveQueueMessages(_ context.Context, request *pb.ReceiveQueueMessagesRequest) (*pb.ReceiveQueueMessagesResponse, error) {
	s.taken.Add(request.MaxNumberOfMessages)
	return &pb.ReceiveQueueMessagesResponse{}, nil
}

// TestANoteThatMayBeStoredIsTakenBack, and what is told of another queue is no note.
func TestANoteThatMayBeStoredIsTakenBack(t *testing.T) {
	t.Parallel()
	server := &notesServer{}
	server.downstream = holding(message("a", 1))
	noting, cancel := context.WithCancel(t.Context())
	defer cancel()
	server.send = func(ctx context.Context, _ *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	d := received(t, opened(t, tr, "q"), 1)[0].(*delivery)
	wasted, err := d.NoteStart(noting)
	require.ErrorIs(t, err, transport.ErrUnconfirmed)
	require.Zero(t, wasted)
	require.NoError(t, d.Release(t.Context()))
	require.EqualValues(t, 1, server.taken.Load())
}

func TestNotesExpire(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategySingle})
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	d := received(t, opened(t, tr, "q"), 1)[0].(*delivery)
	_, err := d.NoteStart(t.Context())
	require.NoError(t, err)
	note, err := tr.publisher.Peek(t.Context(), d.notesChannel(), 1, time.Second)
	require.NoError(t, err)
	require.Len(t, note, 1)
	require.InDelta(t, notesExpiry.Seconds(), time.Until(time.Unix(0, note[0].Attributes.GetExpirationAt())).Seconds(), 60)
}

// TestNotesChannel: one for each message in its place, and a name that every server
// takes, whatever the message is called.
func TestNotesChannel(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, message := range []*pb.QueueMessage{
		{Channel: "q", MessageID: "a", Attributes: &pb.QueueMessageAttributes{Sequence: 1}},
		{Channel: "q", MessageID: "a", Attributes: &pb.QueueMessageAttributes{Sequence: 2}},
		{Channel: "q", MessageID: "b", Attributes: &pb.QueueMessageAttributes{Sequence: 1}},
		{Channel: "p", MessageID: "a", Attributes: &pb.QueueMessageAttributes{Sequence: 1}},
		{Channel: "q", MessageID: "../*> \x00" + strings.Repeat("long", 1000), Attributes: &pb.QueueMessageAttributes{Sequence: 1}},
	} {
		channel := newDelivery(&consumer{queue: "q"}, message, nil).notesChannel()
		name, err := ChannelName(channel)
		require.NoError(t, err)
		require.Equal(t, channel, name)
		require.False(t, seen[channel], channel)
		seen[channel] = true
	}
}

func TestLimitOfTheProducer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy   *pb.QueueMessagePolicy
		attempts int
		queue    string
	}{
		"none":              {nil, 0, ""},
		"the server's own":  {&pb.QueueMessagePolicy{MaxReceiveCount: 1024}, 0, ""},
		"stamped":           {&pb.QueueMessagePolicy{MaxReceiveCount: 3, MaxReceiveQueue: "dead.letters"}, 3, "dead.letters"},
		"a queue alone":     {&pb.QueueMessagePolicy{MaxReceiveQueue: "dead"}, 0, ""},
		"not a channel":     {&pb.QueueMessagePolicy{MaxReceiveCount: 3, MaxReceiveQueue: "a/b"}, 0, ""},
		"no name at all":    {&pb.QueueMessagePolicy{MaxReceiveCount: 3, MaxReceiveQueue: "..."}, 0, ""},
		"a negative number": {&pb.QueueMessagePolicy{MaxReceiveCount: -3, MaxReceiveQueue: "dead"}, 0, ""},
	} {
		attempts, queue := newDelivery(&consumer{}, &pb.QueueMessage{Policy: c.policy}, nil).Limit()
		require.Equal(t, c.attempts, attempts, name)
		require.Equal(t, c.queue, queue, name)
	}
}

// TestFirstErrorTravels: it goes with each copy, and the dead letter tells it beside
// the last one.
func TestFirstErrorTravels(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect})
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Priority: 4, Headers: []byte(`{"h":1}`)}))
	c := opened(t, tr, "q")
	d := received(t, c, 1)[0]
	d.NoteError("the first, broken \xff")
	d.NoteError("not the first")
	require.NoError(t, d.Requeue(t.Context(), 0))
	d = received(t, c, 1)[0]
	d.NoteError("the second")
	require.NoError(t, d.Ack(t.Context()))
	require.NoError(t, d.Requeue(t.Context(), 0))
	require.NoError(t, received(t, c, 1)[0].DeadLetter(t.Context(), transport.DeadLetter{
		Queue: "dead", Reason: "max-attempts", Detail: "the last", Task: "shop.pay", ID: "id", Worker: "w@h", Time: time.Unix(1, 5),
	}))
	letter := received(t, opened(t, tr, "dead"), 1)[0].(*delivery).message
	require.Equal(t, `{"h":1}`, letter.Metadata)
	require.Equal(t, "4", letter.Tags[tagPriority])
	require.Equal(t, Letter{
		DeadLetter: transport.DeadLetter{
			Queue: "dead", Reason: "max-attempts", Detail: "the last", FirstError: "the first, broken \uFFFD",
			Task: "shop.pay", ID: "id", Worker: "w@h", Time: time.Unix(1, 5).UTC(),
		}, From: "q", Attempts: 3,
	}, LetterOf(letter))
}

// TestCopiesKeepTheProducersLimit: the broker's own rule holds for the copy, too, but
// not for a dead letter.
func TestCopiesKeepTheProducersLimit(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect})
	require.NoError(t, tr.publisher.Send(t.Context(), &pb.QueueMessage{
		Channel: "q", Body: []byte("x"), Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 2, MaxReceiveQueue: "dead"},
	}))
	c := opened(t, tr, "q")
	require.NoError(t, received(t, c, 1)[0].Requeue(t.Context(), 0))
	d := received(t, c, 1)[0]
	attempts, queue := d.Limit()
	require.Equal(t, 2, attempts)
	require.Equal(t, "dead", queue)
	require.Equal(t, 2, d.Attempt())
	require.NoError(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: queue, Reason: "max-attempts"}))
	attempts, queue = received(t, opened(t, tr, "dead"), 1)[0].Limit()
	require.Zero(t, attempts)
	require.Empty(t, queue)
}

// TestCopyWithoutItsAck: the copy is there, so the caller must not make another one.
func TestCopyWithoutItsAck(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: holding(message("a", 1))}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
	d := received(t, c, 1)[0]
	d.(*delivery).held.stream.cancel(errSilent)
	require.ErrorIs(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: "dead"}), transport.ErrCopied)
	require.ErrorIs(t, d.Requeue(t.Context(), 0), transport.ErrSettled)
}
