package broker

import (
	"context"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// ack removes the message.
func (o *oneMessage) ack(request *pb.StreamQueueMessagesRequest) (*commit, error) {
	if o.held == nil {
		return nil, errNothingToAck
	}
	if request.RefSequence != o.held.seq { // also 0, which none has
		return nil, errAckSequence
	}
	return o.queues.ack([]*delivery{o.held}), nil
}

// reject is a nack.
func (o *oneMessage) reject(request *pb.StreamQueueMessagesRequest) (*commit, error) {
	if o.held == nil {
		return nil, errNothingToReject
	}
	if request.RefSequence != o.held.seq {
		return nil, errAckSequence
	}
	return o.queues.nack([]*delivery{o.held})
}

// resend moves the message to another queue, or to the tail of its own, with its
// count and its expiration starting again.
func (o *oneMessage) resend(request *pb.StreamQueueMessagesRequest) (*commit, error) {
	if o.held == nil {
		return nil, errNothingToSend
	}
	if err := validateQueueName(request.Channel); err != nil {
		return nil, err
	}
	to, err := o.queues.requeueMove(o.held, request.Channel)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotSend, err)
	}
	return o.queues.move([]move{to}), nil
}

// sendModified stores another message in place of this one.
func (o *oneMessage) sendModified(ctx context.Context, request *pb.StreamQueueMessagesRequest) (*commit, error) {
	if o.held == nil {
		return nil, errNothingToSend
	}
	if request.ModifiedMessage == nil {
		return nil, errNoModified
	}
	out, err := o.queues.config.check(request.ModifiedMessage)
	if err != nil {
		return nil, err
	}
	done, err := o.queues.replace(ctx, o.held, out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotSend, err)
	}
	return done, nil
}

// replace sends a message and acks d with one commit. The message is sent also if
// the queue of d was deleted meanwhile.
func (qs *queues) replace(ctx context.Context, d *delivery, out outgoing) (*commit, error) {
	reserved, err := qs.journal.reserve(ctx, int64(out.size))
	if err != nil {
		return nil, err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, err := qs.queue(out.channel)
	if err != nil {
		qs.journal.budget.Release(reserved)
		return nil, err
	}
	m := qs.newMessage(q, out, time.Now())
	mutations := []mutation{{put: m.stored(), payload: out.payload}}
	if !d.gone {
		d.queue.letGo(d.message)
		qs.touch(d.queue)
		mutations = append(mutations, d.removal())
	}
	return qs.journal.addReserved(mutations, reserved, func() { qs.enterPinned([]*message{m}) }), nil
}
