package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

// chaos decides what goes wrong. It is quiet after heal.
type chaos struct {
	mu     sync.Mutex
	random *rand.Rand
	rate   float64 // of calls that fail
	struck int     // how often a call has failed
	// twins are messages that are in a queue twice, because one was copied and not acked.
	twins int
	// outages are when every call of a kind fails.
	outages map[string]outage
}

type outage struct{ from, to time.Time }

// plan makes an outage of each kind, some of them longer than anybody tries.
func (c *chaos) plan() {
	c.outages = map[string]outage{}
	for _, kind := range []string{"publish", "copy", "store"} {
		from := time.Now().Add(time.Duration(c.random.IntN(60)) * time.Second)
		c.outages[kind] = outage{from, from.Add(time.Duration(c.random.IntN(120)) * time.Second)}
	}
}

func (c *chaos) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate, c.outages = 0, nil
}

func (c *chaos) twin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.twins++
}

// calmFromTheStart tells whether nothing ever failed.
func (c *chaos) calmFromTheStart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.struck == 0
}

// strikes tells whether a call fails, and in which of n ways, the first of which
// leaves everything as it was.
func (c *chaos) strikes(kind string, n int) (way int, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, out := time.Now(), c.outages[kind]; now.After(out.from) && now.Before(out.to) {
		c.struck++
		return 0, true
	}
	way, fails = c.random.IntN(n), c.random.Float64() < c.rate
	if fails {
		c.struck++
	}
	return way, fails
}

func (c *chaos) number(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// chaosBroker is a fakeBroker that fails as a real one does: a settlement is lost
// with the connection, or nobody knows whether it was applied; a copy is there and
// its original is not acked.
type chaosBroker struct {
	*fakeBroker
	chaos *chaos
}

func (b *chaosBroker) Publish(ctx context.Context, queue string, message transport.Outgoing) error {
	way, fails := b.chaos.strikes("publish", 2)
	if fails && way == 0 {
		return errBoom
	}
	if err := b.fakeBroker.Publish(ctx, queue, message); err != nil || !fails {
		return err
	}
	return transport.ErrUnconfirmed
}

func (b *chaosBroker) Consumer(queue string) (transport.Consumer, error) {
	consumer, err := b.fakeBroker.Consumer(queue)
	return &chaosConsumer{consumer, b.chaos}, err
}

type chaosConsumer struct {
	transport.Consumer
	chaos *chaos
}

func (c *chaosConsumer) Receive(ctx context.Context, request transport.ReceiveRequest, deliver func(transport.Delivery)) error {
	return c.Consumer.Receive(ctx, request, func(d transport.Delivery) {
		delivery := &chaosDelivery{fakeDelivery: d.(*fakeDelivery), chaos: c.chaos, auto: request.AutoAck}
		if request.AutoAck {
			_ = delivery.fakeDelivery.Ack(ctx)
		}
		deliver(delivery)
	})
}

type chaosDelivery struct {
	*fakeDelivery
	chaos *chaos
	auto  bool // the broker has acked it
}

// lost takes the message from the worker and puts it back into its queue.
func (d *chaosDelivery) lost() {
	_ = d.settle("lost", func() { d.broker.put(d.queue, d.message) })
}

func (d *chaosDelivery) Ack(ctx context.Context) error {
	way, fails := d.chaos.strikes("ack", 3)
	switch {
	case d.auto:
		return nil
	case !fails:
		return d.fakeDelivery.Ack(ctx)
	case way == 0:
		d.lost()
		return transport.ErrLost
	case way == 1:
		d.lost()
		return transport.ErrUnconfirmed
	default:
		_ = d.fakeDelivery.Ack(ctx)
		return transport.ErrUnconfirmed
	}
}

// sendCopy is a settlement by a copy.
func (d *chaosDelivery) sendCopy(apply func() error) error {
	way, fails := d.chaos.strikes("copy", 3)
	switch {
	case !fails:
		return apply()
	case way == 0:
		return errBoom // nothing was done
	case way == 1 && !d.acked && !d.auto:
		twin := *d.message
		if err := apply(); err != nil {
			return err
		}
		d.broker.put(d.queue, &twin)
		d.chaos.twin()
		return fmt.Errorf("%w: %w", transport.ErrCopied, transport.ErrLost)
	default:
		d.lost()
		return transport.ErrLost
	}
}

func (d *chaosDelivery) Requeue(ctx context.Context, after time.Duration) error {
	return d.sendCopy(func() error { return d.fakeDelivery.Requeue(ctx, after) })
}

func (d *chaosDelivery) DeadLetter(ctx context.Context, letter transport.DeadLetter) error {
	return d.sendCopy(func() error { return d.fakeDelivery.DeadLetter(ctx, letter) })
}

func (d *chaosDelivery) Postpone(ctx context.Context, after time.Duration) error {
	return d.sendCopy(func() error {
		if !d.auto {
			return d.fakeDelivery.Postpone(ctx, after)
		}
		d.message.attempts--
		return d.fakeDelivery.Requeue(ctx, after)
	})
}

func (d *chaosDelivery) Release(ctx context.Context) error {
	return d.sendCopy(func() error {
		if !d.auto {
			return d.fakeDelivery.Release(ctx)
		}
		d.message.attempts--
		return d.fakeDelivery.Requeue(ctx, 0)
	})
}

func (d *chaosDelivery) Nack(ctx context.Context) error {
	if d.auto {
		return d.Requeue(ctx, 0)
	}
	return d.fakeDelivery.Nack(ctx)
}

func (d *chaosDelivery) NoteStart(ctx context.Context) (int, error) {
	if _, fails := d.chaos.strikes("note", 1); fails {
		return 0, errBoom
	}
	return d.fakeDelivery.NoteStart(ctx)
}

// store has a backend fail, before or after the record is stored.
func (c *chaos) store(b *fakeBackend) func(protocol.Meta) error {
	return func(meta protocol.Meta) error {
		way, fails := c.strikes("store", 2)
		if !fails {
			return nil
		}
		if way == 1 {
			b.metas[meta.TaskID] = append(b.metas[meta.TaskID], meta)
		}
		return errBoom
	}
}
