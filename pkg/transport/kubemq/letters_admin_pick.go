package kubemq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/kubemq-io/protobuf/go"
)

// pageBytes bounds what Pick asks for at once. Servers end a stream whose answer
// is larger than DefaultMaxMessage.
const pageBytes = 32 << 20

// Pick is a message that is expected in a channel.
type Pick struct {
	MessageID string
	Sequence  uint64
	// Size is the size of the whole message in bytes.
	Size int
	// Wanted says that it is to be used and removed; else it goes back to its place.
	Wanted bool
}

// PickOf is the pick of a message that was seen in its channel.
func PickOf(message *pb.QueueMessage, wanted bool) Pick {
	return Pick{
		MessageID: message.MessageID, Sequence: message.Attributes.GetSequence(),
		Size: message.Size(), Wanted: wanted,
	}
}

func (p Pick) is(message *pb.QueueMessage) bool {
	return p.MessageID == message.MessageID && p.Sequence == message.Attributes.GetSequence()
}

// Pick takes the oldest messages of a channel, which must be the picks in that
// order, up to the last wanted one, and calls use for each that is wanted. What use
// has returned nil for is removed then; all else goes back to its place. Servers
// can't remove a message from the middle of a queue: what is before it has to be
// taken, and is nobody else's meanwhile.
//
// Where it meets another message it stops with ErrNotTaken, and where use fails
// with that error. A message is removed after it was used: what goes wrong in
// between leaves one that was used in the channel.
func (c *Client) Pick(ctx context.Context, channel string, picks []Pick, use func(context.Context, *pb.QueueMessage) error) error {
	picks = upToLastWanted(picks)
	if len(picks) == 0 {
		return nil
	}
	h, err := c.hold(ctx, channel)
	if err != nil {
		return err
	}
	defer h.release()
	for len(picks) > 0 {
		answer, err := h.take(page(picks))
		if err != nil {
			return err
		}
		if !expected(answer.Messages, picks) {
			return ErrNotTaken
		}
		if err := h.removeUsed(ctx, answer, picks, use); err != nil {
			return err
		}
		picks = picks[len(answer.Messages):]
	}
	return nil
}

func upToLastWanted(picks []Pick) []Pick {
	for len(picks) > 0 && !picks[len(picks)-1].Wanted {
		picks = picks[:len(picks)-1]
	}
	return picks
}

// page is how many of picks to ask for at once, at least one.
func page(picks []Pick) int {
	bytes := 0
	for i, pick := range picks {
		if bytes += pick.Size; bytes > pageBytes {
			return max(1, i)
		}
	}
	return len(picks)
}

// expected tells whether messages are the first of picks. None are not: what was
// seen is gone.
func expected(messages []*pb.QueueMessage, picks []Pick) bool {
	n := len(messages)
	return n > 0 && n <= len(picks) &&
		slices.EqualFunc(messages, picks[:n], func(message *pb.QueueMessage, pick Pick) bool { return pick.is(message) })
}

// held are messages of a channel that are taken, to be given back to their places.
type held struct {
	stream  *stream
	channel string
	// transactions are all that were opened. They stay open to the end: the 2023
	// server hands what one gives back to another (docs/protocol.md §11.2).
	transactions []string
}

func (c *Client) hold(ctx context.Context, channel string) (*held, error) {
	ctx, cancel := context.WithTimeout(ctx, sendBudget) // of the opening, which waits for the connection
	defer cancel()
	st, err := openStream(ctx, c)
	if err != nil {
		return nil, err
	}
	return &held{stream: st, channel: channel}, nil
}

// take takes up to items more.
func (h *held) take(items int) (*pb.QueuesDownstreamResponse, error) {
	answer, err := h.stream.get(h.channel, items, minGetWait)
	if err == nil {
		h.transactions = append(h.transactions, answer.TransactionId)
	}
	return answer, err
}

// removeUsed uses the wanted messages of one answer and removes them, a batch at a
// time. Where use fails, the ones before it are removed all the same.
func (h *held) removeUsed(
	ctx context.Context, answer *pb.QueuesDownstreamResponse, picks []Pick, use func(context.Context, *pb.QueueMessage) error,
) error {
	var used []int64
	for i, message := range answer.Messages {
		if !picks[i].Wanted {
			continue
		}
		if err := use(ctx, message); err != nil {
			return errors.Join(err, h.remove(answer.TransactionId, used))
		}
		if used = append(used, int64(picks[i].Sequence)); len(used) == moveBatch {
			if err := h.remove(answer.TransactionId, used); err != nil {
				return err
			}
			used = nil
		}
	}
	return h.remove(answer.TransactionId, used)
}

// remove acks messages. It is not bounded by a context: after they were used the
// acks are owed. The stream bounds it.
func (h *held) remove(transaction string, sequences []int64) error {
	if len(sequences) == 0 {
		return nil
	}
	ack := newSettlement(pb.QueuesDownstreamRequestType_AckRange, transaction, sequences...)
	h.stream.enqueue(ack)
	if err := <-ack.done; err != nil {
		return fmt.Errorf("kubemq: up to %d used messages may still be in channel %q: %w", len(sequences), h.channel, err)
	}
	return nil
}

// release gives everything back that was not removed and waits until that is
// done, so that the next request finds it.
func (h *held) release() {
	closes := make([]*settlement, len(h.transactions))
	for i, transaction := range h.transactions {
		closes[i] = newSettlement(pb.QueuesDownstreamRequestType_CloseByClient, transaction)
	}
	if len(closes) > 0 {
		h.stream.enqueue(closes...)
	}
	for _, one := range closes {
		<-one.done //nolint:errcheck // where it failed, the end of the stream gives them back
	}
	h.stream.close()
}
