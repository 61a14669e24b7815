package kubemq

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

func TestPublishedForm(t *testing.T) {
	t.Parallel()
	tokens := make(chan []string, 1)
	server := &fakeServer{send: func(ctx context.Context, _ *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		incoming, _ := metadata.FromIncomingContext(ctx)
		tokens <- incoming.Get("authorization")
		return &pb.SendQueueMessageResult{}, nil
	}}
	tr := started(t, Config{
		Address: server.serve(t), Strategy: StrategySingle, AuthToken: "se.cr.et", ClientID: "me",
		MaxReceiveCount: 7, MaxReceiveQueue: "dead/letters",
	})
	require.NoError(t, tr.Publish(t.Context(), "shop@high/1", transport.Outgoing{
		Body: []byte("body"), Headers: []byte(`{"task":"t"}`), Priority: 4, Attempts: 2,
		Delay: 2900 * time.Millisecond, Expires: 1100 * time.Millisecond,
	}))
	require.Equal(t, []string{"se.cr.et"}, <-tokens)
	sent := server.messagesSent()[0]
	require.Equal(t, "shop.high.1", sent.Channel)
	require.Equal(t, "body", string(sent.Body))
	require.JSONEq(t, `{"task":"t"}`, sent.Metadata)
	require.Equal(t, map[string]string{"priority": "4", "lovage-attempts": "2"}, sent.Tags)
	require.Equal(t, &pb.QueueMessagePolicy{
		DelaySeconds: 2, ExpirationSeconds: 2, MaxReceiveCount: 7, MaxReceiveQueue: "dead.letters",
	}, sent.Policy)
	require.Contains(t, sent.ClientID, "me-")
	require.NotEmpty(t, sent.MessageID)
}

// TestMessageIDs is T-K6: the same for a repeated attempt, another for every send.
func TestMessageIDs(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := &fakeServer{send: func(context.Context, *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		switch calls.Add(1) {
		case 1:
			return nil, status.Error(codes.Unavailable, "going away")
		case 2:
			return &pb.SendQueueMessageResult{IsError: true, Error: "stan: connection closed"}, nil
		case 3:
			return &pb.SendQueueMessageResult{IsError: true, Error: "Error 302: connection not available, please retry"}, nil
		}
		return &pb.SendQueueMessageResult{}, nil
	}}
	tr := started(t, Config{Address: server.serve(t), Strategy: StrategySingle})
	same := transport.Outgoing{Body: []byte("x"), Headers: []byte(`{"id":"same"}`)}
	require.NoError(t, tr.Publish(t.Context(), "q", same))
	require.NoError(t, tr.Publish(t.Context(), "q", same))
	sent := server.messagesSent()
	require.Len(t, sent, 5)
	for _, again := range sent[1:4] {
		require.Equal(t, sent[0].MessageID, again.MessageID)
	}
	require.NotEqual(t, sent[0].MessageID, sent[4].MessageID)
}

func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	server := &fakeServer{send: func(ctx context.Context, _ *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	tr := started(t, Config{Address: server.serve(t), Strategy: StrategySingle})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tr.Publish(ctx, "q", transport.Outgoing{Body: []byte("x")}), transport.ErrUnconfirmed)
}

// TestALargeMessageMayTakeLonger: one attempt is no longer than a small message needs,
// and a slow line would never get a large one through.
func TestALargeMessageMayTakeLonger(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 1)
	server := &fakeServer{send: func(ctx context.Context, _ *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return &pb.SendQueueMessageResult{}, nil
	}}
	tr := started(t, Config{Address: server.serve(t), Strategy: StrategySingle})
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	require.LessOrEqual(t, <-left, sendTimeout)
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: make([]byte, 3*slowestLine)}))
	require.Greater(t, <-left, sendTimeout)
}

func TestRefusedMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{ // nil: nothing but a ServerError
		"nats: maximum payload exceeded":                                   transport.ErrTooLarge,
		"stan: invalid publish request":                                    transport.ErrName,
		"Error 120: invalid queue name value, cannot be empty, contains …": transport.ErrName,
		"Error 110: invalid message, cannot be empty":                      nil,
	} {
		server := &fakeServer{send: func(context.Context, *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
			return &pb.SendQueueMessageResult{IsError: true, Error: text}, nil
		}}
		tr := started(t, Config{Address: server.serve(t), Strategy: StrategySingle})
		err := tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")})
		var refusal *ServerError
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, text, refusal.Text)
		if want != nil {
			require.ErrorIs(t, err, want, text)
		}
		require.Len(t, server.messagesSent(), 1, "not repeated")
	}
}

// TestMaxDelayIsLearnt is T-K7: the broker says only that a delay is too long.
func TestMaxDelayIsLearnt(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 10)
	server := startBroker(t, broker.Config{MaxDelay: 3000 * time.Second, MaxExpiration: time.Hour})
	tr := started(t, Config{
		Address: server.addr(), Strategy: StrategyDirect, Hooks: transport.Hooks{Note: func(text string) { notes <- text }},
	})
	<-notes // the strategy
	require.Equal(t, DefaultMaxDelay, tr.Capabilities().MaxDelay)
	err := tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Delay: 10_000 * time.Second})
	require.ErrorIs(t, err, transport.ErrDelay)
	require.Equal(t, 5000*time.Second, tr.Capabilities().MaxDelay)
	require.Contains(t, <-notes, "2h46m40s")
	require.ErrorIs(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Delay: 10_000 * time.Second}), transport.ErrDelay)
	require.Empty(t, notes, "refused without asking")
	// A requeue goes with the longest delay there is.
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	require.NoError(t, received(t, opened(t, tr, "q"), 1)[0].Requeue(t.Context(), 100*time.Hour))
	require.Equal(t, 2500*time.Second, tr.Capabilities().MaxDelay)
}

// TestLongExpiryIsLeftOut: better late than lost, the worker looks at the task's
// own expiry.
func TestLongExpiryIsLeftOut(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{MaxExpiration: time.Hour})
	tr := started(t, Config{Address: server.addr(), Strategy: StrategyDirect})
	for range 2 {
		require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Expires: 2 * time.Hour}))
	}
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Expires: time.Hour}))
	expiry := make([]int32, 0, 3)
	for _, d := range received(t, opened(t, tr, "q"), 3) {
		expiry = append(expiry, d.(*delivery).message.Policy.GetExpirationSeconds())
	}
	require.Equal(t, []int32{0, 0, 3600}, expiry)
}

// TestABrokerThatRefusesEveryDelayEndsIt: a copy is tried with less and less, not for ever.
func TestABrokerThatRefusesEveryDelayEndsIt(t *testing.T) {
	t.Parallel()
	server := &fakeServer{
		downstream: holding(message("a", 1)),
		send: func(context.Context, *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
			return &pb.SendQueueMessageResult{IsError: true, Error: "Error 135: invalid delay seconds, …"}, nil
		},
	}
	tr := started(t, Config{Address: server.serve(t), Strategy: StrategyDirect})
	d := received(t, opened(t, tr, "q"), 1)[0]
	require.ErrorIs(t, d.Requeue(t.Context(), time.Minute), transport.ErrDelay)
	require.Less(t, len(server.messagesSent()), 10)
	require.NoError(t, d.Ack(t.Context()), "it is as it was")
}
