package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// takeAttempts is how often in a row letters may be gone when they are taken.
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
// taken.
func (b *letterBox) take(ctx context.Context, most int, wanted func(letter) bool, use func(context.Context, letter, *kubemq.QueueMessage) error) error {
	taken, failures := 0, 0
	for most == 0 || taken < most {
		picks, n, err := b.picks(ctx, most-taken, wanted)
		if err != nil || n == 0 {
			return err
		}
		before := taken
		err = b.client.Pick(ctx, b.channel, picks, func(ctx context.Context, message *kubemq.QueueMessage) error {
			if err := use(ctx, letterOf(message), message); err != nil {
				return err
			}
			taken++
			return nil
		})
		switch {
		case err == nil, taken > before && errors.Is(err, kubemq.ErrNotTaken):
			failures = 0
		case !errors.Is(err, kubemq.ErrNotTaken):
			return err
		case failures == takeAttempts-1:
			return fmt.Errorf("somebody else takes messages from %q; what was taken here was given back: %w", b.queue, err)
		default:
			failures++
			if err := pause(ctx, takePause); err != nil {
				return err
			}
		}
	}
	return nil
}

// picks lists what is in the box, and which of it is wanted.
func (b *letterBox) picks(ctx context.Context, most int, wanted func(letter) bool) (picks []kubemq.Pick, n int, err error) {
	newest := uint64(0)
	err = b.scan(ctx, func(l letter, message *kubemq.QueueMessage) {
		newest = l.Sequence
		// A server that doesn't tell what was there when the box was opened lets
		// the first scan say it.
		want := (most <= 0 || n < most) && (b.last == 0 || l.Sequence <= b.last) && wanted(l)
		if want {
			n++
		}
		picks = append(picks, kubemq.PickOf(message, want))
	})
	if b.last == 0 {
		b.last = newest
	}
	return picks, n, err
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
