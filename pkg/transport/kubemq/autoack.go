package kubemq

import (
	"context"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// A Get with AutoAck gets messages that the server has acked already
// (docs/protocol.md §11.2, auto ack). What nobody wants any more can't be given back
// then: it is sent anew. What the server has acked for a stream that is gone is lost,
// so an orderly end waits for every Get that is under way.

// itemsOf is how many messages a Get asks for: one with AutoAck, because an answer that
// is too large for the connection would take all its messages with it.
func itemsOf(request transport.ReceiveRequest, most int) int {
	if request.AutoAck {
		return 1
	}
	return min(request.Slots, most)
}

// get asks as the poll says, and waits for the answer.
func (p *polls) get(one *poll, wait time.Duration) (*pb.QueuesDownstreamResponse, error) {
	if !one.autoAck {
		return one.stream.get(p.channel, one.items, wait)
	}
	g, err := one.stream.ask(&pb.QueuesDownstreamRequest{
		Channel: p.channel, MaxItems: int32(one.items), WaitTimeout: int32(wait / time.Millisecond), AutoAck: true,
	})
	if err != nil {
		return nil, err
	}
	return g.answer()
}

// awaitAcked waits for the Gets with AutoAck, where there are any.
func (p *polls) awaitAcked() {
	p.mu.Lock()
	acked := false
	for _, one := range p.pending {
		acked = acked || one.autoAck
	}
	p.mu.Unlock()
	if acked { // then all are: a consumer's requests say the same
		p.running.Wait()
	}
}

// sendBack sends messages anew that the server has acked and nobody has taken. Send
// tries for a while; what it can't send is lost, as it would be in a crash, and somebody
// must learn of it.
//
//nolint:contextcheck,nolintlint // no call under way is the reason for it; nolintlint does not see what it suppresses in callers
func (p *polls) sendBack(messages []*pb.QueueMessage) {
	for _, message := range messages {
		err := p.streams.client.Send(context.Background(), copyOf(message, attemptOf(message)-1, time.Now()))
		if err != nil && p.streams.client.note != nil {
			p.streams.client.note("message %s of channel %q, acked and not worked on, could not be sent back and may be lost: %v",
				message.MessageID, p.channel, err)
		}
	}
}
