package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// gate is a fake's send that holds the first message until it is opened, so that those
// that come meanwhile gather.
type gate struct {
	arrived, open chan struct{}
	first         atomic.Bool
	then          func(*pb.QueueMessage) (*pb.SendQueueMessageResult, error)
}

func newGate(then func(*pb.QueueMessage) (*pb.SendQueueMessageResult, error)) *gate {
	return &gate{arrived: make(chan struct{}), open: make(chan struct{}), then: then}
}

func (g *gate) send(_ context.Context, message *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	if !g.first.Swap(true) {
		close(g.arrived)
		<-g.open
		return &pb.SendQueueMessageResult{}, nil
	}
	return g.then(message)
}

// client opens one to a fake with the gate.
func (g *gate) client(t *testing.T, server *fakeServer) *Client {
	t.Helper()
	server.send = g.send
	c, err := NewClient(Config{Address: server.serve(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// sendAll has messages gather behind the first one and returns how each ended.
func (g *gate) sendAll(t *testing.T, c *Client, bodies ...string) map[string]error {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	ended := map[string]error{}
	send := func(body string) {
		err := c.SendTogether(t.Context(), &pb.QueueMessage{Channel: "q", Body: []byte(body), Policy: &pb.QueueMessagePolicy{}})
		mu.Lock()
		defer mu.Unlock()
		ended[body] = err
	}
	all.Go(func() { send("first") })
	<-g.arrived
	for _, body := range bodies {
		all.Go(func() { send(body) })
	}
	require.Eventually(t, func() bool {
		c.gathered.mu.Lock()
		defer c.gathered.mu.Unlock()
		return len(c.gathered.waiting) == len(bodies)
	}, patience, time.Millisecond)
	close(g.open)
	all.Wait()
	return ended
}

func TestTogetherSharesARequest(t *testing.T) {
	t.Parallel()
	server := &fakeServer{}
	g := newGate(func(message *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		if string(message.Body) == "bad" {
			return &pb.SendQueueMessageResult{IsError: true, Error: "Error 133: bad"}, nil
		}
		return &pb.SendQueueMessageResult{SentAt: 5}, nil
	})
	ended := g.sendAll(t, g.client(t, server), "a", "bad", "c")
	require.Equal(t, []int{3}, server.batches)
	require.NoError(t, ended["first"])
	require.NoError(t, ended["a"])
	require.NoError(t, ended["c"])
	var refusal *ServerError
	require.ErrorAs(t, ended["bad"], &refusal, "what is refused is this message alone")
	require.Equal(t, 133, refusal.Code)
	ids := map[string]bool{}
	for _, message := range server.messagesSent() {
		ids[message.MessageID] = true
	}
	require.Len(t, ids, 4)
}

// TestTogetherGoesAloneAfterAFailure: also where the request is refused for good, as
// one that is too large together.
func TestTogetherGoesAloneAfterAFailure(t *testing.T) {
	t.Parallel()
	server := &fakeServer{}
	var failed atomic.Int32
	g := newGate(func(*pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
		if failed.Add(1) == 1 {
			return nil, errors.New("refused as a whole")
		}
		return &pb.SendQueueMessageResult{}, nil
	})
	ended := g.sendAll(t, g.client(t, server), "a", "b")
	require.Equal(t, map[string]error{"first": nil, "a": nil, "b": nil}, ended)
	require.Equal(t, []int{2}, server.batches)
	ids := map[string]map[string]bool{}
	for _, message := range server.messagesSent() {
		body := string(message.Body)
		if ids[body] == nil {
			ids[body] = map[string]bool{}
		}
		ids[body][message.MessageID] = true
	}
	for body, used := range ids {
		require.Len(t, used, 1, "%s keeps its id", body)
	}
}

// TestTogetherIsBounded: by number, and a large message goes alone.
func TestTogetherIsBounded(t *testing.T) {
	t.Parallel()
	g := &gathered{sending: true}
	for range maxTogether + 1 {
		require.True(t, g.add(&sharing{}))
	}
	require.Len(t, g.next(), maxTogether)
	require.Len(t, g.next(), 1)
	require.Empty(t, g.next())
	require.False(t, g.sending)

	server := &fakeServer{}
	c, err := NewClient(Config{Address: server.serve(t)})
	require.NoError(t, err)
	require.NoError(t, c.SendTogether(t.Context(), &pb.QueueMessage{Channel: "q", Body: make([]byte, maxTogetherBytes)}))
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.SendTogether(t.Context(), &pb.QueueMessage{Channel: "q"}), transport.ErrStopped)
}

// TestTogetherEndsWithItsContext: a caller doesn't wait for the others' request.
func TestTogetherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := &fakeServer{}
	g := newGate(nil)
	c := g.client(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		err := c.SendTogether(ctx, &pb.QueueMessage{Channel: "q", Policy: &pb.QueueMessagePolicy{}})
		require.ErrorIs(t, err, transport.ErrUnconfirmed)
	})
	<-g.arrived
	cancel()
	sending.Wait()
	close(g.open)
}

// TestTogetherOnABroker: everybody's message is there once, under load.
func TestTogetherOnABroker(t *testing.T) {
	t.Parallel()
	server, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	c, err := NewClient(Config{Address: server.Addr().String()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	var all sync.WaitGroup
	for sender := range 32 {
		all.Go(func() {
			for i := range 20 {
				message := &pb.QueueMessage{Channel: fmt.Sprint("q", sender), Body: []byte{byte(i)}}
				if err := c.SendTogether(t.Context(), message); err != nil {
					t.Error(err)
				}
				if got := message.Attributes.GetSequence(); got != uint64(i+1) {
					t.Errorf("sequence %d of message %d", got, i)
				}
			}
		})
	}
	all.Wait()
	for sender := range 32 {
		stored, err := c.Peek(t.Context(), fmt.Sprint("q", sender), 100, time.Second)
		require.NoError(t, err)
		require.Len(t, stored, 20)
	}
}
