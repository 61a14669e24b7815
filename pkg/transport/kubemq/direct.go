package kubemq

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// maxGetItems bounds one Get; the rest of the slots ask with the next.
	maxGetItems = 1024
	// maxGetWait bounds the wait of one Get, so that a dead peer is noticed.
	maxGetWait = 20 * time.Second
	// answerGrace is how long after its wait the answer to a Get may come, before
	// it is left to the next Receive.
	answerGrace = 50 * time.Millisecond
)

// direct asks for all free slots with one Get, on one stream, and settles one by
// one. It is for servers that answer as soon as there is a message, let an open
// transaction alone, and handle settlements while a Get waits.
type direct struct {
	polls *polls
	// items is the most a Get may ask for: it is halved when an answer was larger
	// than a gRPC message may be, and doubles again with each that wasn't.
	items int
}

func newDirect(client *Client, channel string) strategy {
	return &direct{polls: newPolls(client, channel, 1), items: maxGetItems}
}

func (d *direct) receive(ctx context.Context, request transport.ReceiveRequest, deliver deliverFunc) (int, error) {
	round := d.polls.begin(request, 1)
	defer round.end()
	items := itemsOf(request, d.items)
	if err := round.ask(ctx, items, min(request.Wait, maxGetWait), true); err != nil {
		return 0, err
	}
	// The Get may be an adopted one, which waits for longer.
	over := time.NewTimer(request.Wait + answerGrace)
	defer over.Stop()
	answer := round.next(ctx, over.C)
	if answer == nil {
		return 0, nil
	}
	if errors.Is(answer.err, transport.ErrTooLarge) && answer.items > 1 {
		d.items = answer.items / 2
		return 0, nil
	}
	if answer.err != nil {
		return 0, answer.err
	}
	d.items = min(2*d.items, maxGetItems)
	for _, message := range answer.messages {
		deliver(message, answer.transaction)
	}
	return len(answer.messages), nil
}

func (d *direct) stop() { d.polls.stop() }
