package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

	mu sync.Mutex
	// state is how far the delivery is settled.
	state state
	// earlier are deliveries that the server did not count: to this consumer, or
	// those that were noted (attempts.go).
	earlier int
	// notes are those in the message's channel of notes, firstError is what NoteError
	// was told.
	notes      int
	firstError string
	// sent is called when the original's ack is on its way, nil for nobody.
	sent func()
}

// state is how far a delivery is settled.
type state int

const (
	open state = iota
	// acked: it is done, but a copy of it may still be sent.
	acked
	settled
)

// newDelivery is a message that is held in a transaction, or in none if the server
// has acked it.
func newDelivery(c *consumer, message *pb.QueueMessage, held *transaction) *delivery {
	p := placeOf(message)
	return &delivery{consumer: c, message: message, held: held, place: p, earlier: c.history.add(p)}
}

// Body is transport.Delivery's.
func (d *delivery) Body() []byte { return d.message.Body }

// Queue is transport.Delivery's.
func (d *delivery) Queue() string { return d.consumer.queue }

// Attempt adds what copies carry, what the server counts (nacks only) and what
// this consumer remembers or was noted.
func (d *delivery) Attempt() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return attemptOf(d.message) + d.earlier
}

// Redelivered is transport.Delivery's. A message that came back because another
// worker died looks new: the server doesn't count that.
func (d *delivery) Redelivered() bool {
	return d.Attempt() > 1 || d.message.Attributes.GetReRouted() || d.message.Tags[tagReplayed] != ""
}

// Limit is transport.Delivery's. A count without a queue would delete the message
// (docs/protocol.md §13), and a queue that we can't name can't be sent to.
func (d *delivery) Limit() (attempts int, queue string) {
	attempts, queue = int(d.message.Policy.GetMaxReceiveCount()), d.message.Policy.GetMaxReceiveQueue()
	if attempts < 1 || queue == "" {
		return 0, ""
	}
	if CheckChannel(queue) != nil {
		return 0, ""
	}
	return attempts, queue
}

// NoteError is transport.Delivery's.
func (d *delivery) NoteError(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.firstError == "" {
		d.firstError = text
	}
}

// NotifySent is transport.SentNotifier's: for strategies that pipeline.
func (d *delivery) NotifySent(sent func()) {
	if d.consumer.transport.traits.pipelined {
		d.sent = sent
	}
}

// Ack is transport.Delivery's.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, acked, func() error { return d.ackOriginal(ctx) }, d.consumer.history.finish, true)
}

// Nack puts the message at the tail of the queue. The server does it, unless it
// would drop the message for having been nacked too often, has acked it, or doesn't
// know what must go with it.
func (d *delivery) Nack(ctx context.Context) error {
	if d.held == nil || d.nackDrops() || d.knowsMore() {
		return d.replace(ctx, open, d.copy(d.Attempt()), 0)
	}
	return d.settle(ctx, settled, func() error { return d.held.nack(ctx, d.sequence()) }, d.consumer.history.finish, false)
}

// Requeue sends a copy with the delay, or the longest the server takes, and acks
// the original.
func (d *delivery) Requeue(ctx context.Context, after time.Duration) error {
	return d.replace(ctx, acked, d.copy(d.Attempt()), after)
}

// Postpone is Requeue without the count.
func (d *delivery) Postpone(ctx context.Context, after time.Duration) error {
	return d.replace(ctx, open, d.copy(d.Attempt()-1), after)
}

// Release gives the message back to its place. The server only gives back
// everything that is open in a transaction; where other messages of it are at
// work, or it is acked, a copy with the same count goes to the tail instead.
func (d *delivery) Release(ctx context.Context) error {
	if d.held == nil || !d.held.releasable() {
		return d.replace(ctx, open, d.copy(d.Attempt()-1), 0)
	}
	return d.settle(ctx, settled, func() error {
		d.takeNoteBack(ctx) // before anybody else gets the message
		return d.held.release(ctx)
	}, d.consumer.history.remove, false)
}

// DeadLetter sends a copy with the reason to the letter's queue, where it doesn't
// expire, and acks the original.
func (d *delivery) DeadLetter(ctx context.Context, letter transport.DeadLetter) error {
	channel, err := ChannelName(letter.Queue)
	if err != nil {
		return err
	}
	message := d.copy(d.Attempt())
	message.Channel = channel
	message.Policy = &pb.QueueMessagePolicy{}
	if letter.FirstError == "" {
		letter.FirstError = message.Tags[tagFirstError]
	}
	setLetter(message, d.consumer.queue, letter)
	return d.replace(ctx, acked, message, 0)
}

// copy is the message once more, with what was noted about it.
func (d *delivery) copy(attempts int) *pb.QueueMessage {
	message := copyOf(d.message, attempts, time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.firstError != "" && message.Tags[tagFirstError] == "" {
		message.Tags[tagFirstError] = head(d.firstError)
	}
	return message
}

// replace sends message and, once that is confirmed, acks the original. It is
// allowed up to the state from; one that is acked needs no second ack. A copy that
// could not be sent leaves the delivery as it was.
func (d *delivery) replace(ctx context.Context, from state, message *pb.QueueMessage, delay time.Duration) error {
	before, err := d.enter(settled, from)
	if err != nil {
		return err
	}
	if err := d.consumer.transport.sendCopy(ctx, message, delay); err != nil {
		d.leave(before)
		return err
	}
	if before == acked {
		return nil
	}
	if err := d.applied(ctx, d.ackOriginal(ctx), d.consumer.history.finish, true); err != nil {
		return fmt.Errorf("%w: %w", transport.ErrCopied, err)
	}
	return nil
}

// ackOriginal acks the message, unless the server has done so.
func (d *delivery) ackOriginal(ctx context.Context) error {
	if d.held == nil {
		return nil
	}
	return d.held.ack(ctx, d.sequence(), d.sent)
}

// settle does it once. proven notes a settlement that the server has applied. done
// tells that the caller is done with the message whatever the server does: if it
// comes back after an unconfirmed settlement, it is acked again and not handed over.
func (d *delivery) settle(ctx context.Context, to state, apply func() error, proven func(place), done bool) error {
	if _, err := d.enter(to, open); err != nil {
		return err
	}
	return d.applied(ctx, apply(), proven, done)
}

func (d *delivery) applied(ctx context.Context, err error, proven func(place), done bool) error {
	if err == nil || done && errors.Is(err, transport.ErrUnconfirmed) {
		proven(d.place)
		d.dropNotes(ctx)
	}
	return err
}

// enter goes to the state to, if no more is settled than from.
func (d *delivery) enter(to, from state) (before state, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state > from {
		return d.state, fmt.Errorf("kubemq: queue %q: %w", d.consumer.queue, transport.ErrSettled)
	}
	before, d.state = d.state, to
	return before, nil
}

// leave goes back to where enter came from.
func (d *delivery) leave(before state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = before
}

// nackDrops tells whether the server would delete the message at this nack: it has
// a count, which is reached, and no queue for it.
func (d *delivery) nackDrops() bool {
	policy := d.message.Policy
	most := policy.GetMaxReceiveCount()
	return policy.GetMaxReceiveQueue() == "" && most > 0 && d.message.Attributes.GetReceiveCount() >= most
}

// knowsMore tells whether a copy says more than the server would.
func (d *delivery) knowsMore() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.earlier > 0 || d.firstError != ""
}

func (d *delivery) sequence() int64 { return int64(d.place.sequence) }
