package kubemq

import (
	"cmp"
	"context"
	"slices"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
)

// transaction is what a Get was answered with: messages that are held on a stream
// until they are settled.
type transaction struct {
	stream *stream
	id     string
	// together makes all settlements wait for the last one, because the server
	// would fill the place of a settled message with the next of the queue.
	together bool
	// over is closed when every settlement is proven.
	over chan struct{}
	// onOver is called before.
	onOver func()

	mu sync.Mutex
	// open is how many messages are not decided yet, unproven how many have no
	// proven settlement.
	open, unproven int
	// decided are the settlements that wait for the last one.
	decided []*settlement
}

func newTransaction(s *stream, answer *pb.QueuesDownstreamResponse, together bool, onOver func()) *transaction {
	n := len(answer.Messages)
	return &transaction{
		stream: s, id: answer.TransactionId, together: together, open: n, unproven: n,
		over: make(chan struct{}), onOver: onOver,
	}
}

// ack removes one message. onSent, if set, is called when that is on its way.
func (t *transaction) ack(ctx context.Context, sequence int64, onSent func()) error {
	one := newSettlement(pb.QueuesDownstreamRequestType_AckRange, t.id, sequence)
	one.onSent = onSent
	return t.settle(ctx, one)
}

// nack has the server put a copy of one message at the tail.
func (t *transaction) nack(ctx context.Context, sequence int64) error {
	return t.settle(ctx, newSettlement(pb.QueuesDownstreamRequestType_NAckRange, t.id, sequence))
}

// releasable tells whether one message can be given back as it was. The server
// only gives back all that is open, so it must be the last one, or one of several
// that are settled together.
func (t *transaction) releasable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.together || t.open == 1
}

// release gives one message back as it was.
func (t *transaction) release(ctx context.Context) error {
	return t.settle(ctx, newSettlement(pb.QueuesDownstreamRequestType_CloseByClient, t.id))
}

// settle takes the settlement of one message and waits until it is proven.
func (t *transaction) settle(ctx context.Context, one *settlement) error {
	one.settled = t.proved
	t.mu.Lock()
	t.open--
	t.decided = append(t.decided, one)
	last := t.open == 0
	t.mu.Unlock()
	if last || !t.together {
		t.start()
	}
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return unconfirmed(ctx)
	case <-t.stream.done:
	}
	// What was sent has an outcome, perhaps a good one; the rest never will.
	t.start()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return unconfirmed(ctx)
	}
}

// start sends what is decided. Giving back comes last, so that it finds only what
// is neither acked nor nacked.
func (t *transaction) start() {
	t.mu.Lock()
	decided := t.decided
	t.decided = nil
	slices.SortStableFunc(decided, func(a, b *settlement) int { return cmp.Compare(a.rank(), b.rank()) })
	// Under the lock, so that another caller's release can't overtake.
	sent := len(decided) == 0 || t.stream.enqueue(decided...)
	t.mu.Unlock()
	if !sent {
		for _, one := range decided {
			one.finish(lostError("its stream has ended"))
		}
	}
}

// proved notes that one more outcome is known.
func (t *transaction) proved() {
	t.mu.Lock()
	t.unproven--
	last := t.unproven == 0
	t.mu.Unlock()
	if last {
		t.onOver()
		close(t.over)
	}
}

// abandon gives all messages back without waiting for it: the stream's next
// requests come after it.
func (t *transaction) abandon() {
	t.mu.Lock()
	t.open, t.unproven = 0, 1
	t.mu.Unlock()
	one := newSettlement(pb.QueuesDownstreamRequestType_CloseByClient, t.id)
	one.settled = t.proved
	if !t.stream.enqueue(one) {
		one.finish(lostError("its stream has ended"))
	}
}
