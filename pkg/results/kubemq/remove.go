package kubemq

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// peekWait is how long a peek waits for more than there is, on servers that
	// wait; none takes less.
	peekWait = time.Second
	// maxPeek is the most messages that one peek may ask for.
	maxPeek = 1024
	// removeAttempts bounds how often removing starts anew because a reader or
	// another writer was at the queue at the same moment.
	removeAttempts = 20
	removePause    = 50 * time.Millisecond
	// missingLooks is how often our message must be missing to be gone, or behind more
	// than one peek shows.
	missingLooks = 4
)

// errBusy: what is before our message can't be taken.
var errBusy = errors.New("results: the queue changes all the time")

// removeOlder removes what was stored before ours, or ours where a state that stays was
// stored before. Apart from that, the newest message is never taken from the queue
// on the way, so that readers always find one.
func (b *Backend) removeOlder(ctx context.Context, ours *pb.QueueMessage, taskID string) error {
	missing := 0
	for range removeAttempts {
		older, found, err := b.upTo(ctx, ours.Channel, ours.MessageID)
		switch {
		case err != nil:
			return err
		case found && len(older) == 0:
			return nil
		case found:
			err = b.client.Remove(ctx, ours.Channel, takeAndRemove(b.form, older, ours.MessageID, taskID))
			if !errors.Is(err, kubemq.ErrNotTaken) {
				return err
			}
		case superseded(b.form, older, ours, taskID):
			return nil
		default:
			// Somebody has it in their hands, or it was forgotten or has expired. Or a peek
			// doesn't show it: a broker bounds the bytes of one (docs/protocol.md §16).
			if missing++; missing < missingLooks {
				break
			}
			if len(older) == 0 {
				return nil
			}
			err = b.client.Remove(ctx, ours.Channel, takeAndRemove(b.form, older, ours.MessageID, taskID))
			if err != nil && !errors.Is(err, kubemq.ErrNotTaken) {
				return err
			}
		}
		// Writers that met should not meet again.
		wait := removePause/2 + rand.N(removePause) //nolint:gosec // nothing to guess
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
	return errBusy
}

// takeAndRemove says which messages to take from the head of the queue and which
// of them to remove.
func takeAndRemove(form Form, older []*pb.QueueMessage, ours, taskID string) []kubemq.Taking {
	takings := make([]kubemq.Taking, 0, len(older)+1)
	kept := firstKept(form, older, taskID)
	for i, message := range older {
		takings = append(takings, kubemq.Taking{MessageID: message.MessageID, Remove: i != kept})
	}
	if kept >= 0 {
		takings = append(takings, kubemq.Taking{MessageID: ours, Remove: true})
	}
	return takings
}

// superseded tells whether another writer has removed ours, seeing what is left:
// it keeps what stays, or what it sent itself later.
func superseded(form Form, left []*pb.QueueMessage, ours *pb.QueueMessage, taskID string) bool {
	return firstKept(form, left, taskID) >= 0 || slices.ContainsFunc(left, func(m *pb.QueueMessage) bool {
		return m.Attributes.GetTimestamp() > ours.Attributes.GetTimestamp()
	})
}

// firstKept is the place of the first state of the task that stays, -1 if there is none.
func firstKept(form Form, messages []*pb.QueueMessage, taskID string) int {
	return slices.IndexFunc(messages, func(m *pb.QueueMessage) bool {
		return form.Keeps(status(form, m, taskID))
	})
}

// upTo lists the messages before ours, or all that are visible if ours is not.
func (b *Backend) upTo(ctx context.Context, channel, ours string) (older []*pb.QueueMessage, found bool, err error) {
	// Two is the common case, and asking for what is there is answered at once.
	for most := 2; ; most = min(4*most, maxPeek) {
		messages, err := b.client.Peek(ctx, channel, most, peekWait)
		if err != nil {
			return nil, false, err
		}
		if at := slices.IndexFunc(messages, func(m *pb.QueueMessage) bool { return m.MessageID == ours }); at >= 0 {
			return messages[:at], true, nil
		}
		if len(messages) < most || most == maxPeek {
			return messages, false, nil
		}
	}
}
