package kubemq

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// maxSingleWaiting is how many Gets of one consumer wait at the same time. The
	// 2023 server has 200 internal connections for all Gets of all clients; each
	// that waits holds one, and whoever is next in turn for it stands behind.
	maxSingleWaiting = 16
	// linger is how long a Receive goes on when a slot has become free, or its time
	// is over, for what is just about to arrive.
	linger = 5 * time.Millisecond
	// answerTime is how long after its wait a Get is answered, at most, where nothing
	// is wrong. A Receive of that wait that left before would leave Gets behind: what
	// they catch goes back to the queue, and the server may park it with a member
	// that is busy.
	answerTime = 250 * time.Millisecond
)

// single asks for one message at a time, each on a stream of its own, which holds
// nothing but that message. An open transaction with free room would take later
// messages and hide them, and settlements would stand behind a waiting Get.
//
// The server's shortest wait is a second, too long to wait for the last of many
// Gets while slots become free. So a Receive ends when a message of this consumer
// has been settled, and leaves its Gets to the next one, which comes with more
// slots.
type single struct {
	polls *polls
}

func newSingle(client *Client, channel string) strategy {
	return &single{polls: newPolls(client, channel, maxSingleWaiting)}
}

func (s *single) receive(ctx context.Context, request transport.ReceiveRequest, deliver deliverFunc) (int, error) {
	round := s.polls.begin(request, maxSingleWaiting)
	defer round.end()
	delivered := 0
	left, failure := s.ask(ctx, round, request.Slots)
	over := time.NewTimer(timeFor(request.Wait)) // the Gets wait from now on, too
	defer over.Stop()
	for {
		if left > 0 && failure == nil {
			left, failure = s.ask(ctx, round, left)
		}
		if len(round.awaiting) == 0 {
			return delivered, failure
		}
		answer := s.next(ctx, round, over)
		if answer == nil {
			return delivered, failure
		}
		if answer.err != nil {
			failure = answer.err
		}
		if len(answer.messages) == 0 {
			left = 0 // the queue is empty; those that wait may still get one
		}
		for _, message := range answer.messages {
			deliver(message, answer.transaction)
			delivered++
		}
	}
}

// timeFor is how long a Receive goes on that nothing ends sooner.
func timeFor(wait time.Duration) time.Duration {
	if wait < minGetWait {
		return max(linger, wait)
	}
	return wait + answerTime
}

// next is the round's, but ends soon after a message was settled.
func (s *single) next(ctx context.Context, round *round, over *time.Timer) *poll {
	freed := s.polls.freed
	for {
		select {
		case p := <-round.answers:
			return round.took(p)
		case <-ctx.Done():
			return nil
		case <-over.C:
			return nil
		case <-freed:
			over.Reset(linger)
			freed = nil // once: a busy worker settles all the time
		}
	}
}

// ask sends as many Gets as may wait, and returns how many slots are left.
func (s *single) ask(ctx context.Context, round *round, left int) (int, error) {
	for ; left > 0 && len(round.awaiting) < maxSingleWaiting; left-- {
		// Always the shortest wait: every waiting Get is in other people's way.
		if err := round.ask(ctx, 1, minGetWait, false); err != nil {
			return 0, err
		}
	}
	return left, nil
}

func (s *single) stop() { s.polls.stop() }
