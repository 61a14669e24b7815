package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// takeAttempts is how often in a row letters may be gone when they are taken, or
	// the connection.
	takeAttempts = 3
	// takePause is how long to wait in between.
	takePause = 200 * time.Millisecond
)

// letterBox is a queue of dead letters.
type letterBox struct {
	client         *kubemq.Client
	queue, channel string
	deep           bool
	// last is the sequence of the newest letter when the box was opened: one that
	// was replayed may come back while we are still at it.
	last uint64
	// seen is how many letters the last scan showed.
	seen int
}

func openBox(ctx context.Context, client *kubemq.Client, queue, channel string, deep bool) (*letterBox, error) {
	state, err := client.Queue(ctx, channel)
	if err != nil {
		return nil, err
	}
	return &letterBox{client: client, queue: queue, channel: channel, deep: deep, last: state.Last}, nil
}

// scan shows the letters, the oldest first, and leaves them where they are.
func (b *letterBox) scan(ctx context.Context, see func(letter, *kubemq.QueueMessage)) error {
	b.seen = 0
	return b.client.Scan(ctx, b.channel, b.deep, func(message *kubemq.QueueMessage) {
		b.seen++
		see(letterOf(message), message)
	})
}

// rest is how many letters there are that the last scan did not show.
func (b *letterBox) rest(ctx context.Context) (int64, error) {
	state, err := b.client.Queue(ctx, b.channel)
	return max(0, state.Depth-int64(b.seen)), err
}

// find lists the oldest letters that are wanted, at most so many (0 = all).
func (b *letterBox) find(ctx context.Context, most int, wanted func(letter) bool) (found []letter, err error) {
	err = b.scan(ctx, func(l letter, _ *kubemq.QueueMessage) {
		if (most == 0 || len(found) < most) && wanted(l) {
			found = append(found, l)
		}
	})
	return found, err
}

// take hands the oldest letters that are wanted to use, at most so many (0 = all),
// and removes those for which it returns nil. Letters that come meanwhile are not
// taken. No letter is used twice: one that could not be removed, because the
// connection was lost, is still to be removed.
func (b *letterBox) take(ctx context.Context, most int, wanted func(letter) bool, use func(context.Context, letter, *kubemq.QueueMessage) error) error {
	used := map[uint64]bool{} // by the sequence
	var refusal error         // of use
	for failures := 0; ; {
		before := len(used)
		picks, n, err := b.picks(ctx, most, used, wanted)
		switch {
		case err == nil && n == 0:
			return nil
		case err == nil:
			err = b.client.Pick(ctx, b.channel, picks, func(ctx context.Context, message *kubemq.QueueMessage) error {
				l := letterOf(message)
				if used[l.Sequence] {
					return nil
				}
				if refusal = use(ctx, l, message); refusal == nil {
					used[l.Sequence] = true
				}
				return refusal
			})
		}
		switch {
		case err == nil && most > 0 && len(used) >= most:
			return nil
		case err == nil, len(used) > before && errors.Is(err, kubemq.ErrNotTaken):
			failures = 0
		case refusal != nil, failures == takeAttempts-1, !errors.Is(err, kubemq.ErrNotTaken) && !kubemq.Temporary(err):
			return b.notTaken(err)
		default:
			failures++
			if err := pause.For(ctx, takePause); err != nil {
				return err
			}
		}
	}
}

// notTaken says more where letters are gone time and again.
func (b *letterBox) notTaken(err error) error {
	if !errors.Is(err, kubemq.ErrNotTaken) {
		return err
	}
	return fmt.Errorf("somebody else takes messages from %q; what was taken here was given back: %w", b.queue, err)
}

// picks lists what is in the box, and which of it is to be taken: what was used and
// is still there, and what is wanted besides, up to most in all.
func (b *letterBox) picks(
	ctx context.Context, most int, used map[uint64]bool, wanted func(letter) bool,
) (picks []kubemq.Pick, n int, err error) {
	newest, left := uint64(0), most-len(used)
	err = b.scan(ctx, func(l letter, message *kubemq.QueueMessage) {
		newest = l.Sequence
		// A server that doesn't tell what was there when the box was opened lets
		// the first scan say it.
		fresh := !used[l.Sequence] && (most == 0 || left > 0) && (b.last == 0 || l.Sequence <= b.last) && wanted(l)
		if fresh {
			left--
		}
		if fresh || used[l.Sequence] {
			n++
		}
		picks = append(picks, kubemq.PickOf(message, fresh || used[l.Sequence]))
	})
	if err == nil && b.last == 0 {
		b.last = newest
	}
	return picks, n, err
}
