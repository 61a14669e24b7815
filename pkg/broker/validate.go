package broker

import (
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// maxNameBytes is the longest channel name, in bytes.
	maxNameBytes = 255
	// maxReceiveCount is the highest MaxReceiveCount, and the one that a message
	// without a limit gets.
	maxReceiveCount = 1024
	// maxPullMessages and maxPullWait bound ReceiveQueueMessages; AckAll shares
	// the wait.
	maxPullMessages = 1024
	maxPullWait     = time.Hour
	// envelopeBytes is more than what an answer that carries one message adds to
	// it: attributes, names of up to maxNameBytes, ids.
	envelopeBytes = 1 << 10
)

// validateQueueName accepts [A-Za-z0-9._-] without leading, trailing or double
// dots. The original lets more through and then breaks on it: control
// characters hang its sends, dots and slashes fail with other texts.
func validateQueueName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return errQueueName
	}
	if name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return errQueueName
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return errQueueName
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	default:
		return c == '.' || c == '_' || c == '-'
	}
}

// validateEventChannel checks the channel of an event or of a subscription;
// wildcards are for subscriptions only.
func validateEventChannel(channel string, wildcards bool) error {
	switch {
	case channel == "":
		return errChannelEmpty
	case len(channel) > maxNameBytes:
		return errChannelLong
	case !wildcards && strings.ContainsAny(channel, "*>"):
		return errChannelWild
	case strings.ContainsFunc(channel, isSpaceOrControl):
		return errChannelSpace
	case strings.HasSuffix(channel, "."):
		return errChannelDot
	}
	return nil
}

func isSpaceOrControl(r rune) bool { return r <= ' ' || r == 0x7f }

// validateEvent checks an event in the original's order.
func validateEvent(event *pb.Event) error {
	if event.ClientID == "" {
		return errClientID
	}
	if err := validateEventChannel(event.Channel, false); err != nil {
		return err
	}
	if event.Metadata == "" && len(event.Body) == 0 {
		return errMessageEmpty
	}
	return nil
}

// validateConsumer checks what every queue request names.
func validateConsumer(clientID, channel string) error {
	if clientID == "" {
		return errClientID
	}
	return validateQueueName(channel)
}

// validatePull checks a ReceiveQueueMessages request.
func validatePull(request *pb.ReceiveQueueMessagesRequest) error {
	if err := validateConsumer(request.ClientID, request.Channel); err != nil {
		return err
	}
	if request.MaxNumberOfMessages < 1 || request.MaxNumberOfMessages > maxPullMessages {
		return errMaxMessages
	}
	return validateWaitSeconds(request.WaitTimeSeconds)
}

// validateAckAll checks an AckAllQueueMessages request.
func validateAckAll(request *pb.AckAllQueueMessagesRequest) error {
	if err := validateConsumer(request.ClientID, request.Channel); err != nil {
		return err
	}
	return validateWaitSeconds(request.WaitTimeSeconds)
}

func validateWaitSeconds(wait int32) error {
	if wait < 0 || seconds(wait) > maxPullWait {
		return errWaitTimeout
	}
	return nil
}

// validateMessage checks a queue message in the original's order. policy is the
// message's, never nil.
func (c Config) validateMessage(message *pb.QueueMessage, policy *pb.QueueMessagePolicy) error {
	if err := validateConsumer(message.ClientID, message.Channel); err != nil {
		return err
	}
	if message.Metadata == "" && len(message.Body) == 0 {
		return errMessageEmpty
	}
	if policy.ExpirationSeconds < 0 || seconds(policy.ExpirationSeconds) > c.MaxExpiration {
		return errExpiration
	}
	if policy.MaxReceiveCount < 0 || policy.MaxReceiveCount > maxReceiveCount {
		return errReceiveCount
	}
	if policy.DelaySeconds < 0 || seconds(policy.DelaySeconds) > c.MaxDelay {
		return errDelay
	}
	if policy.MaxReceiveQueue != "" {
		return validateQueueName(policy.MaxReceiveQueue)
	}
	return nil
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
