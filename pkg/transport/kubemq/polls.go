package kubemq

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// holdTime is how long messages that nobody waits for any more are kept for the
// next Receive, which a busy worker sends within a moment.
const holdTime = 100 * time.Millisecond

// poll is one Get on its way. owner and answered belong to polls.mu.
type poll struct {
	stream  *stream
	items   int
	autoAck bool
	// owner receives the poll when it is answered; nil while nobody waits.
	owner    chan<- *poll
	answered bool
	// adopted is closed when an owner takes the poll after it was answered.
	adopted chan struct{}

	// The answer: messages of one transaction (nil if the server has acked them), or an
	// error.
	transaction *transaction
	messages    []*pb.QueueMessage
	err         error
}

// polls are a consumer's Gets that have no taker yet. A Get can't be taken back:
// when the Receive that sent it has ended, the next one adopts it, and if none
// comes, what it brings goes back to the queue.
type polls struct {
	streams *streams
	channel string
	// together is how the transactions settle.
	together bool

	mu      sync.Mutex
	pending []*poll
	running sync.WaitGroup
	// freed has a value when a transaction was settled since it was last read.
	freed chan struct{}
	// stopping ends the holding.
	stopping chan struct{}
}

func newPolls(client *Client, channel string, spare int) *polls {
	return &polls{
		streams: &streams{client: client, spare: spare}, channel: channel,
		freed: make(chan struct{}, 1), stopping: make(chan struct{}),
	}
}

// round is the polls of one Receive.
type round struct {
	polls *polls
	// autoAck has the server ack what it hands over.
	autoAck  bool
	answers  chan *poll
	awaiting []*poll
}

// begin starts a round with at most so many polls at the same time.
func (p *polls) begin(request transport.ReceiveRequest, most int) *round {
	return &round{polls: p, autoAck: request.AutoAck, answers: make(chan *poll, most)}
}

// ask adopts a Get that nobody waits for, if it asks for no more than items, or
// sends one on a stream without a waiting Get; shared allows streams on which
// transactions are open.
func (r *round) ask(ctx context.Context, items int, wait time.Duration, shared bool) error {
	if r.adopt(items) {
		return nil
	}
	s, err := r.polls.streams.take(ctx, shared)
	if err != nil {
		return err
	}
	p := &poll{stream: s, items: items, autoAck: r.autoAck, owner: r.answers, adopted: make(chan struct{})}
	r.awaiting = append(r.awaiting, p)
	r.polls.mu.Lock()
	r.polls.pending = append(r.polls.pending, p)
	r.polls.mu.Unlock()
	r.polls.running.Go(func() { r.polls.run(p, wait) })
	return nil
}

// adopt prefers the Get that was sent first: it is answered already, or will be
// soon.
func (r *round) adopt(items int) bool {
	r.polls.mu.Lock()
	defer r.polls.mu.Unlock()
	for _, p := range r.polls.pending {
		if p.owner != nil || p.items > items || p.autoAck != r.autoAck {
			continue
		}
		p.owner = r.answers
		r.awaiting = append(r.awaiting, p)
		if p.answered {
			r.polls.pass(p)
			close(p.adopted)
		}
		return true
	}
	return false
}

// next waits for an answer; nil when ctx has ended or the time is over.
func (r *round) next(ctx context.Context, over <-chan time.Time) *poll {
	select {
	case p := <-r.answers:
		return r.took(p)
	case <-ctx.Done():
		return nil
	case <-over:
		return nil
	}
}

// took notes that an answer was read.
func (r *round) took(p *poll) *poll {
	r.awaiting = slices.DeleteFunc(r.awaiting, func(other *poll) bool { return other == p })
	return p
}

// end leaves what has no taker to the next round.
func (r *round) end() {
	p := r.polls
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range r.awaiting {
		one.owner = nil
	}
	for {
		select {
		case one := <-r.answers:
			if one.err == nil && len(one.messages) > 0 {
				adopted := make(chan struct{})
				one.adopted = adopted
				p.pending = append(p.pending, one)
				p.running.Go(func() { p.hold(one, adopted) })
			}
		default:
			return
		}
	}
}

// run waits for the answer and passes it on.
func (p *polls) run(one *poll, wait time.Duration) {
	answer, err := p.get(one, wait)
	one.err = err
	switch {
	case err != nil:
	case len(answer.Messages) == 0:
		// It may be open all the same, and would go on collecting in silence.
		one.stream.closeTransaction(answer.TransactionId)
	case len(answer.Messages) > one.items:
		one.stream.closeTransaction(answer.TransactionId)
		one.err = fmt.Errorf("kubemq: get from channel %q: %d messages, %d at most were asked for",
			p.channel, len(answer.Messages), one.items)
	case one.autoAck:
		one.messages = answer.Messages
	default:
		one.messages = answer.Messages
		one.transaction = newTransaction(one.stream, answer, p.together, func() { p.settled(one.stream) })
	}
	p.streams.answered(one.stream, one.transaction != nil)
	p.mu.Lock()
	one.answered = true
	adopted, passed := one.adopted, one.owner != nil || len(one.messages) == 0
	if passed {
		p.pass(one)
	}
	p.mu.Unlock()
	if !passed {
		p.hold(one, adopted)
	}
}

// settled notes the end of a transaction.
func (p *polls) settled(s *stream) {
	p.streams.ended(s)
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// pass gives an answered poll to its owner, if it has one. The caller holds mu.
func (p *polls) pass(one *poll) {
	p.pending = slices.DeleteFunc(p.pending, func(other *poll) bool { return other == one })
	if one.owner != nil {
		one.owner <- one // has room for every poll of its round
	}
}

// hold waits for the next round to take the messages, and gives them back if it
// doesn't.
func (p *polls) hold(one *poll, adopted <-chan struct{}) {
	timer := time.NewTimer(holdTime)
	defer timer.Stop()
	select {
	case <-adopted:
		return
	case <-timer.C:
	case <-p.stopping:
	}
	p.mu.Lock()
	late := !slices.Contains(p.pending, one)
	if !late {
		p.pass(one)
	}
	p.mu.Unlock()
	switch {
	case late:
	case one.autoAck:
		p.sendBack(one.messages)
	default:
		one.transaction.abandon()
	}
}

// stop ends the streams and waits for all polls. What an AutoAck Get brings when its
// stream has ended is lost, so those are waited for first.
func (p *polls) stop() {
	close(p.stopping)
	p.awaitAcked()
	p.streams.close()
	p.running.Wait()
}
