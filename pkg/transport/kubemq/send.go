package kubemq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/internal/kubemqwire"
	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// sendTimeout bounds one attempt to send. Servers answer in milliseconds; one
	// answer in ten thousand has been seen to get lost on streams, none here.
	sendTimeout = 5 * time.Second
	// sendBudget bounds all attempts together, if the context has no earlier end.
	sendBudget = 30 * time.Second
	// slowestLine is how many bytes a second go over the slowest line that is worth to be
	// waited for: a large message may take so much longer.
	slowestLine = 1 << 20
)

// onTheLine is how long so many bytes may take to get to the server.
func onTheLine(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / slowestLine
}

// Send stores message and returns nil once the server has confirmed it. It fills
// in the client and message ids and, from the answer, its attributes: the time and, where
// the server tells it, the sequence. Within 30 seconds, and one more for each
// MiB, or until ctx ends it tries again when the outcome is unknown, with the same
// message id; after that the error wraps transport.ErrUnconfirmed. What the server refuses is a *ServerError;
// a message beyond the size limits is transport.ErrTooLarge.
func (c *Client) Send(ctx context.Context, message *pb.QueueMessage) error {
	return c.sendUntil(ctx, message, c.sendOnce)
}

// sendUntil is Send with a first attempt of its own.
func (c *Client) sendUntil(
	ctx context.Context, message *pb.QueueMessage, first func(context.Context, *pb.QueueMessage) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, sendBudget+onTheLine(len(message.Body)+len(message.Metadata)))
	defer cancel()
	message.ClientID = c.id
	// Unique per send: servers index delayed messages by it, and a second pending
	// one with the same id would replace the first. It is the same for a repeated
	// attempt, where replacing is what we want.
	message.MessageID = rand.Text()
	waits := newBackOff()
	for try := first; ; try = c.sendOnce {
		err := try(ctx, message)
		if err == nil || refused(err) {
			return err
		}
		if pause.For(ctx, waits.NextBackOff()) != nil {
			return fmt.Errorf("kubemq: send to channel %q: %w: %w", message.Channel, transport.ErrUnconfirmed, err)
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, message *pb.QueueMessage) error {
	answer, err := c.sendOne(ctx, message)
	if err != nil {
		return err
	}
	return confirm(message, answer)
}

// confirm takes over what the server says of a message.
func confirm(message *pb.QueueMessage, answer *pb.SendQueueMessageResult) error {
	if answer.IsError {
		return newServerError(answer.Error)
	}
	message.Attributes = &pb.QueueMessageAttributes{Timestamp: answer.SentAt, Sequence: kubemqwire.PlaceOf(answer)}
	return nil
}

func (c *Client) sendOne(ctx context.Context, message *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	ctx, cancel := context.WithTimeout(c.call(ctx), sendTimeout+onTheLine(len(message.Body)+len(message.Metadata)))
	defer cancel()
	answer, err := c.rpc.SendQueueMessage(ctx, message, grpc.WaitForReady(true))
	if err != nil {
		return nil, c.failed(err)
	}
	return answer, nil
}

// Peek reads up to most of the oldest ready messages of a channel and leaves them
// there. Some servers answer at once only when there are that many, else after
// wait (whole seconds, at least one); others don't wait if there is any.
func (c *Client) Peek(ctx context.Context, channel string, most int, wait time.Duration) ([]*pb.QueueMessage, error) {
	seconds := max(1, int32(wait/time.Second))
	ctx, cancel := context.WithTimeout(c.call(ctx), time.Duration(seconds)*time.Second+answerMargin)
	defer cancel()
	answer, err := c.rpc.ReceiveQueueMessages(ctx, &pb.ReceiveQueueMessagesRequest{
		RequestID: rand.Text(), ClientID: c.id, Channel: channel,
		MaxNumberOfMessages: int32(most), WaitTimeSeconds: seconds, IsPeak: true,
	}, grpc.WaitForReady(true))
	if err != nil {
		return nil, c.failed(err)
	}
	if answer.IsError {
		return nil, newServerError(answer.Error)
	}
	return answer.Messages, nil
}

// Purge removes ready messages of a channel and returns how many. Some servers stop
// after a second, so that there may be more when it is not 0.
func (c *Client) Purge(ctx context.Context, channel string) (uint64, error) {
	ctx, cancel := context.WithTimeout(c.call(ctx), time.Second+answerMargin)
	defer cancel()
	answer, err := c.rpc.AckAllQueueMessages(ctx, &pb.AckAllQueueMessagesRequest{
		RequestID: rand.Text(), ClientID: c.id, Channel: channel, WaitTimeSeconds: 1,
	}, grpc.WaitForReady(true))
	if err != nil {
		return 0, c.failed(err)
	}
	if answer.IsError {
		return 0, newServerError(answer.Error)
	}
	return answer.AffectedMessages, nil
}

// ErrNotTaken says that Remove found other messages than it was told.
var ErrNotTaken = errors.New("kubemq: the messages to remove are not at the head of the channel")

// Taking is one message for Remove to take.
type Taking struct {
	MessageID string
	// Remove says whether to remove it; else it goes back to its place.
	Remove bool
}

// Remove takes the oldest messages of a channel, which must be the ones in takings
// in that order, and removes some of them. Where the head of the channel is
// something else, nothing is removed, everything is given back and the error is
// ErrNotTaken; a reader can cause that for a moment.
func (c *Client) Remove(ctx context.Context, channel string, takings []Taking) error {
	ctx, cancel := context.WithTimeout(ctx, sendBudget)
	defer cancel()
	st, err := openStream(ctx, c)
	if err != nil {
		return err
	}
	defer st.close()
	answer, err := st.get(channel, len(takings), minGetWait)
	if err != nil {
		return err
	}
	var sequences []int64
	matches := len(answer.Messages) == len(takings)
	for i, message := range answer.Messages {
		matches = matches && message.MessageID == takings[i].MessageID
		if matches && takings[i].Remove {
			sequences = append(sequences, int64(message.Attributes.GetSequence()))
		}
	}
	if !matches {
		st.closeTransaction(answer.TransactionId)
		return ErrNotTaken
	}
	ack := newSettlement(pb.QueuesDownstreamRequestType_AckRange, answer.TransactionId, sequences...)
	st.enqueue(ack)
	select {
	case err := <-ack.done:
		// What was not removed goes back with the end of the stream.
		return err
	case <-ctx.Done():
		return unconfirmed(ctx)
	}
}
