package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

// consumer takes messages from one queue. It stays the same over lost connections.
type consumer struct {
	transport      *Transport
	queue, channel string
	history        history

	// closed ends what runs; once makes Close idempotent.
	closed chan struct{}
	once   sync.Once

	// receiving is held by Receive. strategy belongs to its holder; nil before the
	// first Receive, because the server is probed at the start of the transport.
	receiving sync.Mutex
	strategy  strategy
	// errands are the acks of what came twice, and the removal of notes.
	errands errands
}

// Receive is transport.Consumer's. It may return before request.Wait is over.
func (c *consumer) Receive(ctx context.Context, request transport.ReceiveRequest, deliver func(transport.Delivery)) error {
	if request.Slots < 1 {
		return fmt.Errorf("kubemq: receive from queue %q: %d slots, at least 1", c.queue, request.Slots)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.receiving.Lock()
	defer c.receiving.Unlock()
	watching := make(chan struct{})
	defer func() { cancel(nil); <-watching }()
	go func() {
		defer close(watching)
		select {
		case <-c.closed:
			cancel(transport.ErrStopped)
		case <-ctx.Done():
		}
	}()
	waits := newBackOff()
	for {
		if err := c.await(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if c.strategy == nil {
			c.strategy = c.transport.traits.open(c.transport.consumer, c.channel)
		}
		delivered, err := c.strategy.receive(ctx, request, func(message *pb.QueueMessage, held *transaction) {
			if c.history.isDone(placeOf(message)) {
				c.ackAgain(ctx, message, held)
				return
			}
			deliver(newDelivery(c, message, held))
		})
		switch {
		case err == nil, delivered > 0:
			return nil
		case ctx.Err() != nil:
			return c.stopped()
		case refused(err):
			return fmt.Errorf("kubemq: receive from queue %q: %w", c.queue, err)
		}
		// The link may be up again at once, or never have been down.
		if pause.For(ctx, waits.NextBackOff()) != nil {
			return c.stopped()
		}
	}
}

// await waits until the broker answers, ctx ends or the consumer is closed.
func (c *consumer) await(ctx context.Context) error {
	if err := c.stopped(); err != nil {
		return err
	}
	if err := c.transport.link.await(ctx); errors.Is(err, transport.ErrGaveUp) {
		return fmt.Errorf("kubemq: receive from queue %q: %w", c.queue, err)
	}
	return c.stopped()
}

// ackAgain settles a message that the server delivers although it has acked it.
// What isn't proven in time is delivered once more, and acked then.
func (c *consumer) ackAgain(ctx context.Context, message *pb.QueueMessage, held *transaction) {
	if held == nil {
		return // the server has acked it
	}
	c.errands.start(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), barrierTimeout)
		defer cancel()
		_ = held.ack(ctx, int64(message.Attributes.GetSequence()), nil)
	})
}

// stopped is what an ended Receive returns: nothing, unless the consumer is closed.
func (c *consumer) stopped() error {
	select {
	case <-c.closed:
		return fmt.Errorf("kubemq: receive from queue %q: %w", c.queue, transport.ErrStopped)
	default:
		return nil
	}
}

// Close ends Receive, proves what was settled and gives the rest back.
func (c *consumer) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.receiving.Lock()
		defer c.receiving.Unlock()
		if c.strategy != nil {
			c.strategy.stop()
		}
		c.errands.close()
		c.transport.forget(c)
	})
	return nil
}
