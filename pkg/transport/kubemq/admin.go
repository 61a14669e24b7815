package kubemq

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// moveBatch is how many messages Move takes at a time. They go back to their places
// when it is cut off.
const moveBatch = 32

// QueueDepth is what a server tells of a queue. Its figures but Depth differ
// between servers: some count what was acked for as long as they keep it.
type QueueDepth struct {
	// Name is the channel's name.
	Name string
	// Depth counts the messages that are ready or in flight, not the delayed ones.
	Depth int64
	// Sent and Delivered count messages, Consumers the requests that wait for one.
	Sent, Delivered, Consumers int64
}

// Queues lists the server's queues with their depths: all of them, or those of the
// given channels that have ever had a message.
func (c *Client) Queues(ctx context.Context, channels ...string) ([]QueueDepth, error) {
	found, err := c.queuesInfo(ctx, channels...)
	if err != nil {
		return nil, err
	}
	queues := make([]QueueDepth, 0, len(found))
	for _, q := range found {
		depth := QueueDepth{Name: q.Name, Depth: q.Waiting, Sent: q.Sent, Delivered: q.Delivered, Consumers: q.Subscribers}
		if q.Messages == 0 {
			// Servers tell 1 sent and 1 waiting of a queue that had none.
			depth.Depth = 0
		}
		queues = append(queues, depth)
	}
	return queues, nil
}

// Move moves ready messages from one channel to another, in their order, until none
// is left or as many as most (0 = all) are moved, and returns how many. Body, metadata
// and tags stay as they are, and so do the dead letter rule and what is left of
// the expiry. Each copy is confirmed before its original is acked: what goes wrong in
// between leaves a message in both channels, never in none.
func (c *Client) Move(ctx context.Context, from, to string, most int) (int, error) {
	if from == to {
		return 0, fmt.Errorf("kubemq: move from channel %q to itself: %w", from, transport.ErrName)
	}
	h, err := c.hold(ctx, from)
	if err != nil {
		return 0, err
	}
	st := h.stream
	defer st.close()
	moved := 0
	for most == 0 || moved < most {
		items := moveBatch
		if most > 0 {
			items = min(items, most-moved)
		}
		answer, err := st.get(from, items, minGetWait)
		if err != nil {
			return moved, err
		}
		n, err := c.moveAll(ctx, st, answer, to)
		moved += n
		if err != nil || len(answer.Messages) == 0 {
			return moved, err
		}
	}
	return moved, nil
}

// moveAll moves the messages of one answer. Where a copy fails, the ones before it
// are acked all the same.
func (c *Client) moveAll(ctx context.Context, st *stream, answer *pb.QueuesDownstreamResponse, to string) (int, error) {
	var copied []int64
	var failure error
	for _, received := range answer.Messages {
		failure = c.Send(ctx, &pb.QueueMessage{
			Channel: to, Body: received.Body, Metadata: received.Metadata, Tags: received.Tags,
			Policy: policyOf(received, time.Now()),
		})
		if failure != nil {
			break
		}
		copied = append(copied, int64(received.Attributes.GetSequence()))
	}
	if len(copied) == 0 {
		return 0, failure
	}
	ack := newSettlement(pb.QueuesDownstreamRequestType_AckRange, answer.TransactionId, copied...)
	st.enqueue(ack)
	// Not bounded by ctx: after the copies the acks are owed. The stream bounds it.
	if err := <-ack.done; err != nil {
		return 0, errors.Join(failure, fmt.Errorf("kubemq: %d messages are in channel %q too: %w", len(copied), to, err))
	}
	return len(copied), failure
}
