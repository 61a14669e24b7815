package kubemq

import (
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestNackNeverDrops: the broker deletes a message at the nack that reaches its
// count, where it has no queue for it.
func TestNackNeverDrops(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect})
	require.NoError(t, tr.publisher.Send(t.Context(), &pb.QueueMessage{
		Channel: "q", Body: []byte("x"), Tags: map[string]string{"priority": "3", "mine": "kept"},
		Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 2},
	}))
	c := opened(t, tr, "q")
	for attempt := 1; attempt <= 5; attempt++ {
		d := received(t, c, 1)[0]
		require.Equal(t, attempt, d.Attempt())
		require.Equal(t, "kept", d.(*delivery).message.Tags["mine"])
		require.NoError(t, d.Nack(t.Context()))
	}
}

// TestNackToTheBrokersDeadLetterQueue: where there is a queue, it is the
// producer's wish.
func TestNackToTheBrokersDeadLetterQueue(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{
		Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect, MaxReceiveCount: 2, MaxReceiveQueue: "dead",
	})
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	c := opened(t, tr, "q")
	for range 2 {
		require.NoError(t, received(t, c, 1)[0].Nack(t.Context()))
	}
	d := received(t, opened(t, tr, "dead"), 1)[0]
	require.Equal(t, "x", string(d.Body()))
	require.True(t, d.Redelivered(), "it was rerouted")
	require.NoError(t, d.Nack(t.Context()), "a dead letter has no count")
}

func TestDeadLetterKeepsTheReason(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect})
	require.NoError(t, tr.Publish(t.Context(), "q/1", transport.Outgoing{
		Body: []byte("x"), Headers: []byte(`{"h":1}`), Expires: time.Hour, Priority: 5,
	}))
	d := received(t, opened(t, tr, "q/1"), 1)[0]
	require.NoError(t, d.DeadLetter(t.Context(), transport.DeadLetter{Queue: "bad", Reason: "undecodable", Detail: "at byte 7"}))
	letter := received(t, opened(t, tr, "bad"), 1)[0].(*delivery).message
	require.Equal(t, "x", string(letter.Body))
	require.Equal(t, `{"h":1}`, letter.Metadata)
	require.Equal(t, map[string]string{
		"priority": "5", "lovage-attempts": "1", "lovage-reason": "undecodable", "lovage-detail": "at byte 7", "lovage-queue": "q/1",
	}, letter.Tags)
	require.Zero(t, letter.Attributes.GetExpirationAt(), "it is kept")
}

func TestCopy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	original := &pb.QueueMessage{
		MessageID: "id", ClientID: "python", Channel: "q", Body: []byte("b"), Metadata: "m",
		Tags:       map[string]string{"priority": "1", tagAttempts: "3"},
		Policy:     &pb.QueueMessagePolicy{MaxReceiveCount: 4, MaxReceiveQueue: "dead", ExpirationSeconds: 900},
		Attributes: &pb.QueueMessageAttributes{Sequence: 7, ReceiveCount: 2, ExpirationAt: now.Add(90500 * time.Millisecond).UnixNano()},
	}
	again := copyOf(original, 5, now)
	require.Equal(t, &pb.QueueMessage{
		Channel: "q", Body: []byte("b"), Metadata: "m",
		Tags:   map[string]string{"priority": "1", tagAttempts: "5"},
		Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 4, MaxReceiveQueue: "dead", ExpirationSeconds: 91},
	}, again)
	require.Equal(t, "3", original.Tags[tagAttempts], "the original is untouched")

	bare := copyOf(&pb.QueueMessage{Channel: "q", Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 1024}}, 0, now)
	require.Equal(t, &pb.QueueMessagePolicy{}, bare.Policy, "a count without a queue would drop it one day")
	require.Empty(t, bare.Tags)
	late := copyOf(&pb.QueueMessage{Attributes: &pb.QueueMessageAttributes{ExpirationAt: 1}}, 0, now)
	require.EqualValues(t, 1, late.Policy.ExpirationSeconds, "not 0, which is never")
}

func TestAttemptsOfStrangers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "-4": 0, "x": 0, "1e9": 0, "7": 7, "99999999": maxAttempts, "99999999999999999999": 0} {
		require.Equal(t, want, earlierAttempts(&pb.QueueMessage{Tags: map[string]string{tagAttempts: text}}), text)
	}
	c := &consumer{queue: "q"}
	require.Equal(t, 1, newDelivery(c, &pb.QueueMessage{}, nil).Attempt(), "at least 1, without attributes too")
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	p := place{id: "a", sequence: 1}
	require.Zero(t, h.add(p))
	require.Equal(t, 1, h.add(p))
	h.remove(p)
	require.Zero(t, h.add(p))
	for i := range uint64(maxHistory + 100) {
		h.add(place{sequence: i + 2})
	}
	require.LessOrEqual(t, len(h.seen), maxHistory)
}

// TestHistoryKeepsNoLongIDs: whoever sends a message chooses its id.
func TestHistoryKeepsNoLongIDs(t *testing.T) {
	t.Parallel()
	long := func(id string) place {
		return placeOf(&pb.QueueMessage{MessageID: id, Attributes: &pb.QueueMessageAttributes{Sequence: 1}})
	}
	a, b := long(strings.Repeat("a", 1<<20)), long(strings.Repeat("a", 1<<20)+"b")
	require.NotEqual(t, a, b)
	require.Less(t, len(a.id), maxPlaceID)
}

// TestDeliveredAgainAfterItsAck: where several consumers share a queue, the 2023
// server delivers some messages again that it has acked. They are acked once more
// and not handed over; another message with the same body is.
func TestDeliveredAgainAfterItsAck(t *testing.T) {
	t.Parallel()
	twin := message("a", 3)
	server := &fakeServer{downstream: holding(message("a", 1), message("a", 1), message("b", 2), twin)}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategySingle}), "q")
	require.NoError(t, received(t, c, 1)[0].Ack(t.Context()))
	got := received(t, c, 2)
	require.Equal(t, "b", string(got[0].Body()))
	require.EqualValues(t, 3, got[1].(*delivery).place.sequence)
	for _, d := range got {
		require.NoError(t, d.Ack(t.Context()))
	}
	within(t, func() bool { return len(server.of(pb.QueuesDownstreamRequestType_AckRange)) == 4 }, "the second ack")
}

func TestReleasedMessageIsNotDone(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: holding(message("a", 1), message("a", 1))}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategySingle}), "q")
	require.NoError(t, received(t, c, 1)[0].Release(t.Context()))
	require.Equal(t, "a", string(received(t, c, 1)[0].Body()))
}

func TestHistoryForgetsTheOldest(t *testing.T) {
	t.Parallel()
	var h history
	for sequence := range uint64(doneWindow + 2) {
		h.finish(place{"id", sequence})
	}
	require.False(t, h.isDone(place{"id", 1}))
	require.True(t, h.isDone(place{"id", 2}))
	require.True(t, h.isDone(place{"id", doneWindow + 1}))
	require.Len(t, h.done, doneWindow)
}

// TestAckThatMayHaveBeenAppliedIsUnconfirmed: the connection ends between the ack
// and its proof. To call that lost, "the broker delivers it again", would be a guess.
func TestAckThatMayHaveBeenAppliedIsUnconfirmed(t *testing.T) {
	t.Parallel()
	server := &fakeServer{}
	hold := holding(message("a", 1))
	address := server.serve(t)
	cut := make(chan struct{})
	server.downstream = func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_ActiveOffsets {
			close(cut) // takes the ack, and dies before it can prove it
			return
		}
		hold(request, answer)
	}
	c := opened(t, started(t, Config{Address: address, Strategy: StrategyDirect}), "q")
	d := received(t, c, 1)[0]
	go func() {
		<-cut
		d.(*delivery).held.stream.cancel(errSilent)
	}()
	require.ErrorIs(t, d.Ack(t.Context()), transport.ErrUnconfirmed)
}
