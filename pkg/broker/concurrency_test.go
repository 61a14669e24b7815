package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// TestEveryMessageIsAckedOnceWhateverConsumersDo lets consumers ack, nack, requeue,
// close and vanish in the middle of everything. In the end every message was acked
// by exactly one of them, and nothing is left.
func TestEveryMessageIsAckedOnceWhateverConsumersDo(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		const messages, consumers = 600, 8
		sent := make([]string, messages)
		for i := range sent {
			sent[i] = fmt.Sprint("m", i)
		}
		r := &erratic{client: c, acks: make(map[string]int), all: make(chan struct{}), want: messages}
		var group sync.WaitGroup
		for i := range consumers {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			group.Go(func() {
				for r.open() {
					r.consume(random)
				}
			})
		}
		for len(sent) > 0 {
			c.sendBodies("q", sent[:50]...)
			sent = sent[50:]
		}
		group.Wait()
		require.Len(t, r.acks, messages)
		for body, n := range r.acks {
			require.Equal(t, 1, n, body)
		}
		require.Zero(t, c.waiting(""))
	})
}

// erratic is what consumers that can't be relied on have in common.
type erratic struct {
	client *client
	want   int

	mu   sync.Mutex
	acks map[string]int // confirmed ones, by body
	all  chan struct{}
}

func (r *erratic) open() bool {
	select {
	case <-r.all:
		return false
	default:
		return true
	}
}

func (r *erratic) acked(body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks[body]++
	if len(r.acks) == r.want && r.acks[body] == 1 {
		close(r.all)
	}
}

// consume is the life of one stream: a few transactions, then it vanishes.
func (r *erratic) consume(random *rand.Rand) {
	ctx, cancel := context.WithCancel(r.client.t.Context())
	defer cancel()
	stream, err := r.client.QueuesDownstream(ctx)
	if err != nil {
		r.client.t.Error(err)
		return
	}
	for range 20 {
		queue := "q"
		if random.IntN(4) == 0 {
			queue = "moved"
		}
		got, err := exchange(stream, &pb.QueuesDownstreamRequest{
			ClientID: "c", RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: queue,
			MaxItems: 1 + random.Int32N(10), WaitTimeout: 5,
		})
		if err != nil || got.IsError {
			r.client.t.Error(err, got.GetError())
			return
		}
		if len(got.Messages) > 0 && !r.settle(random, stream, got) {
			return
		}
	}
}

// settle does something with what was received, and reports whether the stream
// goes on. The barrier tells whether an ack counts.
func (r *erratic) settle(random *rand.Rand, stream pb.Kubemq_QueuesDownstreamClient, got *pb.QueuesDownstreamResponse) bool {
	kinds := []pb.QueuesDownstreamRequestType{
		typeAckRange, typeAckRange, typeAckRange, typeAckRange, typeNAckRange, typeReQueueRange, typeNAckAll, typeReQueueAll, typeCloseByClient,
	}
	if random.IntN(10) == 0 {
		return false
	}
	request := &pb.QueuesDownstreamRequest{
		RequestTypeData: kinds[random.IntN(len(kinds))], RefTransactionId: got.TransactionId, ReQueueChannel: "moved",
		SequenceRange: sequences(got.Messages)[:1+random.IntN(len(got.Messages))],
	}
	if err := stream.Send(request); err != nil {
		r.client.t.Error(err)
		return false
	}
	barrier := &pb.QueuesDownstreamRequest{RequestTypeData: typeActiveOffsets, RefTransactionId: got.TransactionId}
	if _, err := exchange(stream, barrier); err != nil {
		r.client.t.Error(err)
		return false
	}
	if request.RequestTypeData == typeAckRange {
		for i := range request.SequenceRange {
			r.acked(string(got.Messages[i].Body))
		}
	}
	return true
}
