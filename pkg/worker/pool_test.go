package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// unproven is a broker whose acks are on their way until proof is closed.
type unproven struct {
	*fakeBroker
	proof chan struct{}
}

func (b unproven) Consumer(queue string) (transport.Consumer, error) {
	c, err := b.fakeBroker.Consumer(queue)
	return unprovenConsumer{Consumer: c, proof: b.proof}, err
}

type unprovenConsumer struct {
	transport.Consumer
	proof chan struct{}
}

func (c unprovenConsumer) Receive(ctx context.Context, request transport.ReceiveRequest, deliver func(transport.Delivery)) error {
	return c.Consumer.Receive(ctx, request, func(d transport.Delivery) {
		deliver(&unprovenDelivery{Delivery: d, proof: c.proof})
	})
}

type unprovenDelivery struct {
	transport.Delivery
	proof chan struct{}
	sent  func()
}

func (d *unprovenDelivery) NotifySent(sent func()) { d.sent = sent }

func (d *unprovenDelivery) Ack(ctx context.Context) error {
	d.sent()
	<-d.proof
	return d.Delivery.Ack(ctx)
}

// TestSlotIsGivenBackWhileItsAckIsOnItsWay: the next task doesn't wait for the proof; but
// no more run than there are slots, and what is unproven is bounded.
func TestSlotIsGivenBackWhileItsAckIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		late           bool
		begun, running int64 // without a proof
	}{
		"late":  {late: true, begun: 4, running: 2},
		"early": {late: false, begun: 0, running: 0}, // acked before it runs: the slot is the task's
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.Concurrency, h.options.AcksLate = 2, c.late
				var running, most, begun atomic.Int64
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
					begun.Add(1)
					raise(&most, running.Add(1))
					elapse(recallGrace)
					running.Add(-1)
					return nil, nil
				})
				broker := unproven{h.broker, make(chan struct{})}
				w, err := New(h.options, h.registry, broker, h.backend, h.recorder)
				require.NoError(t, err)
				require.NoError(t, w.Start(context.Background()))
				h.worker = w
				for range 10 {
					h.send(protocol.Message{Task: "t"})
				}
				elapse(settleTimeout / 2)
				synctest.Wait()
				require.Equal(t, c.begun, begun.Load())
				require.Equal(t, c.running, most.Load())
				h.broker.mu.Lock()
				unsettled := h.broker.most
				h.broker.mu.Unlock()
				require.LessOrEqual(t, unsettled, 4)
				close(broker.proof)
				elapse(settleTimeout)
				synctest.Wait()
				require.EqualValues(t, 10, begun.Load())
				require.EqualValues(t, 2, most.Load())
				w.pool.mu.Lock()
				require.Equal(t, 2, w.pool.goroutines, "no more are kept than there are slots")
				w.pool.mu.Unlock()
				require.Len(t, seen[TaskSucceeded](h.recorder), 10)
				require.Empty(t, h.broker.waiting("celery"))
				w.slots.mu.Lock()
				defer w.slots.mu.Unlock()
				require.LessOrEqual(t, w.slots.free, 2, "each slot is given back once")
				require.Zero(t, w.pool.busy.Load())
				require.Zero(t, w.pool.early.Load())
			})
		})
	}
}

// TestEachPassHasASlotOfItsOwn: a job that was parked comes back before its first pass
// has ended.
func TestEachPassHasASlotOfItsOwn(t *testing.T) {
	t.Parallel()
	var p *pool
	var given atomic.Int64
	again := make(chan struct{})
	first := true
	p = newPool(2, func(j *job) {
		if first {
			first = false
			p.submit(j)
			<-again
			return
		}
		close(again)
	}, func(*job) { given.Add(1) })
	p.submit(&job{})
	p.close()
	require.EqualValues(t, 2, given.Load())
	require.Zero(t, p.busy.Load())
	require.Zero(t, p.early.Load())
}
