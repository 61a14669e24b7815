package kubemq

import (
	"maps"
	"strconv"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Tags on messages. The priority is kubemq-celery's; the rest is ours.
const (
	tagPriority = "priority"
	// tagAttempts counts the deliveries of earlier copies of a message.
	tagAttempts = "lovage-attempts"
)

// maxAttempts bounds what the tag of a stranger's message may claim.
const maxAttempts = 1_000_000

// newMessage is the message that stands for outgoing, without delay and expiry.
func newMessage(channel string, outgoing transport.Outgoing) *pb.QueueMessage {
	message := &pb.QueueMessage{
		Channel: channel, Body: outgoing.Body, Metadata: string(outgoing.Headers),
		Tags:   map[string]string{tagPriority: strconv.Itoa(outgoing.Priority)},
		Policy: &pb.QueueMessagePolicy{},
	}
	setAttempts(message, outgoing.Attempts)
	return message
}

// copyOf is a new message with what received brought, for the same queue. Its
// expiry is what remains of the original's.
func copyOf(received *pb.QueueMessage, attempts int, now time.Time) *pb.QueueMessage {
	tags := maps.Clone(received.Tags)
	if tags == nil {
		tags = make(map[string]string)
	}
	message := &pb.QueueMessage{
		Channel: received.Channel, Body: received.Body, Metadata: received.Metadata, Tags: tags,
		Policy: policyOf(received, now),
	}
	setAttempts(message, attempts)
	return message
}

// policyOf is the policy for a copy of received: its expiry is what remains of the
// original's.
func policyOf(received *pb.QueueMessage, now time.Time) *pb.QueueMessagePolicy {
	kept := &pb.QueueMessagePolicy{}
	if policy := received.Policy; policy.GetMaxReceiveQueue() != "" {
		kept.MaxReceiveCount, kept.MaxReceiveQueue = policy.MaxReceiveCount, policy.MaxReceiveQueue
	}
	if at := received.Attributes.GetExpirationAt(); at != 0 {
		kept.ExpirationSeconds = expirySeconds(max(time.Second, time.Unix(0, at).Sub(now)))
	}
	return kept
}

func setAttempts(message *pb.QueueMessage, attempts int) {
	delete(message.Tags, tagAttempts)
	if attempts > 0 {
		message.Tags[tagAttempts] = strconv.Itoa(attempts)
	}
}

// earlierAttempts reads the tag; whatever is not a sane number counts as none.
func earlierAttempts(message *pb.QueueMessage) int {
	tag := message.Tags[tagAttempts]
	if tag == "" {
		return 0
	}
	n, err := strconv.Atoi(tag)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxAttempts)
}

// attemptOf is which delivery this is, as far as the message tells; at least 1.
func attemptOf(message *pb.QueueMessage) int {
	return earlierAttempts(message) + max(1, int(message.Attributes.GetReceiveCount()))
}

// expirySeconds rounds up, so that nothing expires before its time.
func expirySeconds(expires time.Duration) int32 {
	return int32(min((expires+time.Second-1)/time.Second, 1<<31-1))
}
