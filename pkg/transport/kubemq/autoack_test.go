package kubemq

import (
	"bytes"
	"context"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestAutoAckAsksForOneMessage: together these would be an answer that the client
// refuses, and the server has acked them.
func TestAutoAckAsksForOneMessage(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{StrategyDirect, StrategySingle, StrategyBatch} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			const size, count = 1 << 20, 6
			tr := started(t, Config{
				Address: startBroker(t, broker.Config{}).addr(), Strategy: strategy, MaxReceive: size + overhead,
			})
			for i := range count {
				body := bytes.Repeat([]byte{'a' + byte(i)}, size)
				require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: body}))
			}
			c := opened(t, tr, "q")
			got := 0
			within(t, func() bool {
				request := transport.ReceiveRequest{Slots: count - got, Wait: time.Second, AutoAck: true}
				require.NoError(t, c.Receive(t.Context(), request, func(transport.Delivery) { got++ }))
				return got == count
			}, "every message")
		})
	}
}

// TestWhatCannotBeSentBackIsTold: the server has acked it, and nobody else knows.
func TestWhatCannotBeSentBackIsTold(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	hold := holding(message("a", 1))
	server := &fakeServer{
		downstream: func(request *pb.QueuesDownstreamRequest, reply func(*pb.QueuesDownstreamResponse)) {
			if request.AutoAck {
				close(asked)
				<-answer
			}
			hold(request, reply)
		},
		send: func(context.Context, *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
			return &pb.SendQueueMessageResult{IsError: true, Error: "Error 110: no"}, nil
		},
	}
	notes := make(chan string, 8)
	tr := started(t, Config{
		Address: server.serve(t), Strategy: StrategyDirect, Hooks: transport.Hooks{Note: func(text string) { notes <- text }},
	})
	<-notes // of the strategy
	c := opened(t, tr, "q")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: time.Minute, AutoAck: true}, func(transport.Delivery) {
		t.Error("delivered after the end")
	}))
	close(answer)
	require.Contains(t, <-notes, `message id-a of channel "q"`)
}
