package kubemq

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

// QueueMessage is a message as a server keeps it.
type QueueMessage = pb.QueueMessage

// MaxPeek is the most messages that servers show at once.
const MaxPeek = 1024

// tagPrefix begins every tag that Lovage puts beside a message (docs/protocol.md
// §21).
const tagPrefix = "lovage-"

// tagReplayed marks a dead letter that was put back to work. Its attempts start
// again, so nothing else tells its worker that a failure is stored, which readers
// would go on to see.
const tagReplayed = tagPrefix + "replayed"

// Restored is a dead letter as the message it was, still without a channel: with its
// body, metadata and tags, and without what Lovage wrote beside them, but for a mark
// that makes it redelivered. Its attempts start again. A dead letter rule and what
// is left of an expiry are kept where it has them.
func Restored(letter *pb.QueueMessage) *pb.QueueMessage {
	tags := map[string]string{tagReplayed: "true"}
	for tag, text := range letter.Tags {
		if !strings.HasPrefix(tag, tagPrefix) {
			tags[tag] = text
		}
	}
	return &pb.QueueMessage{
		Body: letter.Body, Metadata: letter.Metadata, Tags: tags, Policy: policyOf(letter, time.Now()),
	}
}

// Rewritten is a dead letter with another body and other metadata, for the queue
// that it is in. task and id are what they say now, for the tags that tell it.
func Rewritten(letter *pb.QueueMessage, body []byte, metadata, task, id string) *pb.QueueMessage {
	message := copyOf(letter, earlierAttempts(letter), time.Now())
	message.Body, message.Metadata = body, metadata
	for tag, text := range map[string]string{tagTask: task, tagID: id} {
		if _, told := message.Tags[tag]; told {
			message.Tags[tag] = head(text)
		}
	}
	return message
}

// QueueState is what a server counts of a queue; it is zero for a queue that it
// doesn't know, and where it doesn't tell.
type QueueState struct {
	// Depth counts the messages that are ready or in flight, not the delayed ones.
	Depth int64
	// Last is the sequence of the newest message that the queue ever had.
	Last uint64
}

// Queue asks for the state of a channel.
func (c *Client) Queue(ctx context.Context, channel string) (QueueState, error) {
	found, err := c.queuesInfo(ctx, channel)
	if status.Code(err) == codes.Unimplemented {
		return QueueState{}, nil
	}
	for _, q := range found {
		if q.Messages > 0 { // servers tell 1 waiting of a queue that had none
			return QueueState{Depth: q.Waiting, Last: uint64(max(0, q.LastSequence))}, nil
		}
	}
	return QueueState{}, err
}

// Scan shows the ready messages of a channel to see, the oldest first, and leaves
// them in their places. It peeks, which shows MaxPeek messages at most and no more
// than the server puts into one answer. With deep it takes them all instead, and
// gives them back to their places when it has seen them: nobody else can have them
// meanwhile. Where somebody else is at it too, that is ErrNotTaken.
func (c *Client) Scan(ctx context.Context, channel string, deep bool, see func(*pb.QueueMessage)) error {
	if deep {
		return c.scanDeeply(ctx, channel, see)
	}
	for items := MaxPeek; ; items /= 2 {
		messages, err := c.Peek(ctx, channel, items, minGetWait)
		if items > 1 && errors.Is(err, transport.ErrTooLarge) {
			continue // together they are
		}
		for _, message := range messages {
			see(message)
		}
		return err
	}
}

const (
	// deepAttempts is how often a deep scan tries to find the oldest message first.
	deepAttempts = 20
	deepPause    = 100 * time.Millisecond
)

func (c *Client) scanDeeply(ctx context.Context, channel string, see func(*pb.QueueMessage)) error {
	oldest, err := c.Peek(ctx, channel, 1, minGetWait)
	if err != nil || len(oldest) == 0 {
		return err
	}
	state, err := c.Queue(ctx, channel)
	if err != nil {
		return err
	}
	seen := make(map[uint64]bool)
	once := func(message *pb.QueueMessage) {
		if sequence := message.Attributes.GetSequence(); !seen[sequence] {
			seen[sequence] = true
			see(message)
		}
	}
	depth, items := int(state.Depth), int(state.Depth)
	if depth == 0 { // it is not told
		depth, items = math.MaxInt32, MaxPeek
	}
	for attempts := 0; ; {
		err := c.holdAll(ctx, channel, items, depth, PickOf(oldest[0], false), once)
		switch {
		case items > 1 && errors.Is(err, transport.ErrTooLarge):
			// It ended the stream. What that held comes back, but not at once.
			items /= 2
		case attempts < deepAttempts && errors.Is(err, ErrNotTaken):
			attempts++
			if err := pause.For(ctx, deepPause); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// holdAll takes up to depth messages, at most items at a time, of which oldest must
// be the first. To ask for more than there are would make the 2023 server wait.
func (c *Client) holdAll(
	ctx context.Context, channel string, items, depth int, oldest Pick, see func(*pb.QueueMessage),
) error {
	h, err := c.hold(ctx, channel)
	if err != nil {
		return err
	}
	defer h.release()
	for seen := 0; seen < depth; {
		answer, err := h.take(min(items, depth-seen))
		if err != nil {
			return err
		}
		switch found := len(answer.Messages) > 0; {
		case seen == 0 && (!found || !oldest.is(answer.Messages[0])):
			return ErrNotTaken
		case !found:
			return nil
		}
		seen += len(answer.Messages)
		for _, message := range answer.Messages {
			see(message)
		}
	}
	return nil
}
