package kubemq

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Publish sends message to a queue and returns nil once the broker confirmed it.
// It tries for 30 seconds, or until ctx ends, and then returns ErrUnconfirmed.
// Delays are whole seconds, rounded down. A delay beyond the broker's maximum is
// transport.ErrDelay, and so is one for which it would not keep the message; where
// the broker's maximum is lower than was known, that is learnt first. An expiry longer than the broker takes is left out: the worker looks at
// the task's own expiry anyway.
func (t *Transport) Publish(ctx context.Context, queue string, message transport.Outgoing) error {
	channel, err := ChannelName(queue)
	if err != nil {
		return err
	}
	outgoing := newMessage(channel, message)
	outgoing.Policy.MaxReceiveCount = int32(t.config.MaxReceiveCount)
	outgoing.Policy.MaxReceiveQueue = t.maxReceiveChannel
	if message.Expires > 0 {
		outgoing.Policy.ExpirationSeconds = expirySeconds(message.Expires)
	}
	return t.send(ctx, outgoing, message.Delay)
}

// send delays message and sends it.
func (t *Transport) send(ctx context.Context, message *pb.QueueMessage, delay time.Duration) error {
	if longest := t.config.longestKept(); delay > longest {
		return fmt.Errorf("kubemq: send to channel %q: delay of %s, at most %s where the broker keeps messages for %s: %w",
			message.Channel, delay, longest, t.config.Retention, transport.ErrDelay)
	}
	if longest := t.maxDelay(); delay > longest {
		return fmt.Errorf("kubemq: send to channel %q: delay of %s, at most %s: %w",
			message.Channel, delay, longest, transport.ErrDelay)
	}
	message.Policy.DelaySeconds = int32(max(0, delay) / time.Second)
	if message.Policy.ExpirationSeconds > t.maxExpiry.Load() {
		message.Policy.ExpirationSeconds = 0
	}
	err := t.publisher.Send(ctx, message)
	switch {
	case err == nil:
		t.countDelayed(message)
		return nil
	case isServerError(err, codeExpiration) && message.Policy.ExpirationSeconds > 0:
		t.learnExpiry(message.Policy.ExpirationSeconds)
		return t.send(ctx, message, delay)
	case isServerError(err, codeDelay):
		return fmt.Errorf("%w (now taken to be %s)", err, t.learnDelay(delay))
	case errors.Is(err, transport.ErrUnconfirmed), refused(err):
		return err
	}
	return fmt.Errorf("kubemq: send to channel %q: %w", message.Channel, err)
}

// sendCopy is send for a delay that need not be kept to the full: it is cut to the
// broker's maximum.
func (t *Transport) sendCopy(ctx context.Context, message *pb.QueueMessage, delay time.Duration) error {
	for {
		delay = min(delay, t.maxDelay())
		err := t.send(ctx, message, delay)
		if !errors.Is(err, transport.ErrDelay) || delay < time.Second { // it refuses even none
			return err
		}
	}
}

// maxDelay is the longest delay that the broker takes and keeps a message for.
func (t *Transport) maxDelay() time.Duration {
	return min(time.Duration(t.maxDelaySeconds.Load())*time.Second, t.config.longestKept())
}

// learnDelay lowers the maximum after the broker refused a delay. It doesn't say
// what its maximum is, so we halve until it fits.
func (t *Transport) learnDelay(refused time.Duration) time.Duration {
	seconds := int64(refused/time.Second) / 2
	for {
		known := t.maxDelaySeconds.Load()
		if seconds >= known {
			return t.maxDelay()
		}
		if t.maxDelaySeconds.CompareAndSwap(known, seconds) {
			t.note("the broker refuses a delay of %s; the longest is now taken to be %s", refused, t.maxDelay())
			return t.maxDelay()
		}
	}
}

// learnExpiry lowers the longest expiry to below what the broker refused.
func (t *Transport) learnExpiry(refused int32) {
	for {
		known := t.maxExpiry.Load()
		if refused > known {
			return
		}
		if t.maxExpiry.CompareAndSwap(known, refused-1) {
			t.note("the broker refuses an expiry of %d s; longer ones are left to the workers", refused)
			return
		}
	}
}
