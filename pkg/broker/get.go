package broker

import (
	"context"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// get leaves a Get to a goroutine, so that the stream's settlements never stand
// behind it.
func (d *downstream) get(ctx context.Context, request *pb.QueuesDownstreamRequest) {
	g := &get{
		downstream: d,
		want:       d.queues.config.wanted(request),
		after:      d.last,
		autoAck:    request.AutoAck,
		response:   respondTo(request),
	}
	g.response.TransactionId = d.nextID()
	if err := validateConsumer(request.ClientID, request.Channel); err != nil {
		d.answer(ctx, g.response, err)
		return
	}
	select {
	case d.gets <- struct{}{}:
		if d.queues.quirks.SerialStreams {
			g.run(ctx)
			return
		}
		d.workers.Go(func() { g.run(ctx) })
	default:
		d.answer(ctx, g.response, &limitError{what: "unanswered gets on the stream", limit: maxStreamGets})
	}
}

func (d *downstream) nextID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids.next()
}

// wanted is what a Get asks for.
func (c Config) wanted(request *pb.QueuesDownstreamRequest) want {
	w := want{
		queue: request.Channel,
		max:   int(request.MaxItems),
		wait:  max(time.Duration(request.WaitTimeout)*time.Millisecond, c.MinWait),
	}
	if w.max <= 0 {
		w.max = maxGetItems
	}
	return w
}

// get is one Get of a stream.
type get struct {
	*downstream
	want     want
	after    *commit // the settlement before it: this Get sees its effect, its answer proves it
	autoAck  bool
	response *pb.QueuesDownstreamResponse
}

func (g *get) run(ctx context.Context) {
	defer func() { <-g.gets }()
	ctx, cancel := g.queues.quirks.outlive(ctx)
	defer cancel()
	if g.after.wait(ctx) != nil {
		return
	}
	if g.queues.quirks.groups() {
		g.runMember(ctx)
		return
	}
	claim, err := g.queues.lineUp(ctx, g.want)
	if err != nil {
		g.fail(err)
		return
	}
	claim.await(ctx)
	g.deliver(ctx, claim)
}

func (g *get) fail(err error) {
	g.response.IsError, g.response.Error = true, err.Error()
	g.send(g.response)
}

// deliver answers. Bodies are read only when it is this answer's turn to be sent,
// so that a client which asks and does not read costs no memory.
func (g *get) deliver(ctx context.Context, c *claim) {
	g.sending.Lock()
	defer g.sending.Unlock()
	messages, deliveries, err := g.queues.load(c.messages)
	g.response.Messages = messages
	switch {
	case ctx.Err() != nil:
		g.queues.release(inFlight(c.messages))
		return
	case err != nil:
		g.queues.release(inFlight(c.messages))
		g.response.IsError, g.response.Error = true, err.Error()
	case len(deliveries) == 0:
	case g.autoAck:
		// Durable before it is sent: at most once, as with the original.
		if g.queues.ack(deliveries).wait(ctx) != nil {
			return
		}
	default:
		g.open(g.response.TransactionId, newTransaction(deliveries, c.member.stay()))
	}
	_ = g.stream.Send(g.response) // a failure ends the stream, which releases
}

func (d *downstream) open(id string, t *transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.transactions[id] = t
}
