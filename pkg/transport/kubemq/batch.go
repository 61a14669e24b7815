package kubemq

import (
	"context"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// backlogAge is how old a message is on arrival when there is a backlog: one
	// that finds a waiting Get arrives within a few milliseconds.
	backlogAge = 25 * time.Millisecond
	// gather is how long after a batch its slots may take to become free.
	gather = 2 * time.Millisecond
)

// batch asks for several messages at once and settles them together when the last
// one is decided; the next Get waits for that. One transaction at a time is what
// servers that park messages do best, at the price that an ack takes as long as
// the slowest message of its batch.
//
// Such a server answers a Get for more than there is only after its whole wait,
// and takes messages meanwhile. So a batch grows only while there is a backlog.
type batch struct {
	polls *polls
	// current is the last transaction, nil before the first.
	current *transaction
	// size is how many messages it had.
	size int
	// items is what the next Get asks for.
	items int
	// skew is the smallest age seen: the difference between the clocks, about.
	skew time.Duration
	now  func() time.Time
}

func newBatch(client *Client, channel string) strategy {
	polls := newPolls(client, channel, 1)
	polls.together = true
	return &batch{polls: polls, items: 1, skew: time.Hour, now: time.Now}
}

func (b *batch) receive(ctx context.Context, request transport.ReceiveRequest, deliver deliverFunc) (int, error) {
	if waited, over := b.wait(ctx); !over {
		return 0, nil
	} else if waited && b.size > 1 {
		// The slots of the batch become free one after another just now; the caller
		// should come with all of them.
		_ = pause.For(ctx, gather) // an end shows at the next call
		return 0, nil
	}
	round := b.polls.begin(request, 1)
	defer round.end()
	if err := round.ask(ctx, itemsOf(request, b.items), minGetWait, false); err != nil {
		return 0, err
	}
	answer := round.next(ctx, nil)
	if answer == nil {
		return 0, nil
	}
	if answer.err != nil {
		b.items = 1
		return 0, answer.err
	}
	b.items = b.next(answer.items, answer.messages)
	if b.size = len(answer.messages); b.size > 0 {
		b.current = answer.transaction
	}
	for _, message := range answer.messages {
		deliver(message, answer.transaction)
	}
	return b.size, nil
}

// wait waits for the last batch; over is false when ctx has ended first.
func (b *batch) wait(ctx context.Context) (waited, over bool) {
	if b.current == nil {
		return false, ctx.Err() == nil
	}
	select {
	case <-b.current.over:
	case <-b.current.stream.done:
	case <-ctx.Done():
		return true, false
	}
	b.current = nil
	return true, true
}

// next is what to ask for after a Get for items brought messages: twice as many
// when it came back full of old ones, half as many when it was not full.
func (b *batch) next(items int, messages []*pb.QueueMessage) int {
	if len(messages) < items {
		return max(1, len(messages)/2)
	}
	oldest := time.Duration(0)
	for _, message := range messages {
		age := b.now().Sub(time.Unix(0, message.Attributes.GetTimestamp()))
		b.skew = min(b.skew, age)
		oldest = max(oldest, age)
	}
	if oldest-b.skew > backlogAge {
		return min(2*items, maxGetItems)
	}
	return 1
}

func (b *batch) stop() {
	if b.current != nil {
		b.current.start() // what is decided needn't be done again
	}
	b.polls.stop()
}
