package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// delivery is one message that is held in a transaction. What the server can't do
// (a delay, a reason, a count) is done with a copy: it is confirmed before the
// original is acked, so a crash in between gives a duplicate and never a loss. A
// copy that fails leaves the delivery as it was, to be settled in another way.
type delivery struct {
	consumer *consumer
	message  *pb.QueueMessage
	held     *transaction
	place    place
	// earlier are deliveries to this consumer that the server did not count.
	earlier int
	settled atomic.Bool
}

func newDelivery(c *consumer, message *pb.QueueMessage, held *transaction) *delivery {
	p := placeOf(message)
	return &delivery{consumer: c, message: message, held: held, place: p, earlier: c.history.add(p)}
}

// Body is transport.Delivery's.
func (d *delivery) Body() []byte { return d.message.Body }

// Queue is transport.Delivery's.
func (d *delivery) Queue() string { return d.consumer.queue }

// Attempt adds what copies carry, what the server counts (nacks only) and what
// this consumer remembers.
func (d *delivery) Attempt() int {
	return earlierAttempts(d.message) + max(1, int(d.message.Attributes.GetReceiveCount())) + d.earlier
}

// Redelivered is transport.Delivery's. A message that came back because another
// worker died looks new: the server doesn't count that.
func (d *delivery) Redelivered() bool {
	return d.Attempt() > 1 || d.message.Attributes.GetReRouted()
}

// Ack is transport.Delivery's.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(nothing, func() error { return d.held.ack(ctx, d.sequence()) }, d.consumer.history.finish, true)
}

// Nack puts the message at the tail of the queue. The server does it, unless it
// would drop the message for having been nacked too often.
func (d *delivery) Nack(ctx context.Context) error {
	if d.nackDrops() {
		return d.replace(ctx, copyOf(d.message, d.Attempt(), time.Now()), 0)
	}
	return d.settle(nothing, func() error { return d.held.nack(ctx, d.sequence()) }, d.consumer.history.finish, false)
}

// Requeue sends a copy with the delay, or the longest the server takes, and acks
// the original.
func (d *delivery) Requeue(ctx context.Context, after time.Duration) error {
	return d.replace(ctx, copyOf(d.message, d.Attempt(), time.Now()), after)
}

// Release gives the message back to its place. The server only gives back
// everything that is open in a transaction; where other messages of it are at
// work, a copy with the same count goes to the tail instead.
func (d *delivery) Release(ctx context.Context) error {
	if d.held.releasable() {
		return d.settle(nothing, func() error { return d.held.release(ctx) }, d.consumer.history.remove, false)
	}
	return d.replace(ctx, copyOf(d.message, d.Attempt()-1, time.Now()), 0)
}

// DeadLetter sends a copy with the reason to the letter's queue, where it doesn't
// expire, and acks the original.
func (d *delivery) DeadLetter(ctx context.Context, letter transport.DeadLetter) error {
	channel, err := ChannelName(letter.Queue)
	if err != nil {
		return err
	}
	message := copyOf(d.message, d.Attempt(), time.Now())
	message.Channel = channel
	message.Policy = &pb.QueueMessagePolicy{}
	setLetter(message, d.consumer.queue, letter)
	return d.replace(ctx, message, 0)
}

// replace sends message and, once that is confirmed, acks the original.
func (d *delivery) replace(ctx context.Context, message *pb.QueueMessage, delay time.Duration) error {
	return d.settle(
		func() error { return d.consumer.transport.sendCopy(ctx, message, delay) },
		func() error { return d.held.ack(ctx, d.sequence()) },
		d.consumer.history.finish, true)
}

// nothing is to be prepared.
func nothing() error { return nil }

// settle makes sure that it happens once. A failed prepare leaves the delivery
// open. proven notes a settlement that the server has applied. done tells that the
// caller is done with the message whatever the server does: if it comes back after
// an unconfirmed settlement, it is acked again and not handed over.
func (d *delivery) settle(prepare, apply func() error, proven func(place), done bool) error {
	if d.settled.Swap(true) {
		return fmt.Errorf("kubemq: queue %q: %w", d.consumer.queue, transport.ErrSettled)
	}
	if err := prepare(); err != nil {
		d.settled.Store(false)
		return err
	}
	err := apply()
	if err == nil || done && errors.Is(err, transport.ErrUnconfirmed) {
		proven(d.place)
	}
	return err
}

// nackDrops tells whether the server would delete the message at this nack: it has
// a count, which is reached, and no queue for it.
func (d *delivery) nackDrops() bool {
	policy := d.message.Policy
	most := policy.GetMaxReceiveCount()
	return policy.GetMaxReceiveQueue() == "" && most > 0 && d.message.Attributes.GetReceiveCount() >= most
}

func (d *delivery) sequence() int64 { return int64(d.place.sequence) }
