package kubemq

import (
	"context"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// strategy is a way to take messages from one queue. What it hands over settles
// through the transaction it came in, wherever that lives: a strategy may keep
// messages in another place than the queue.
type strategy interface {
	// receive is transport.Consumer's Receive for a connection that works: it
	// returns how many messages it handed over, and an error when the connection
	// failed or the server refused.
	receive(ctx context.Context, request transport.ReceiveRequest, deliver deliverFunc) (int, error)
	// stop proves what is decided, gives back the rest and waits for all that
	// runs. A receive under way ends.
	stop()
}

// deliverFunc takes one message that is held in a transaction.
type deliverFunc func(message *pb.QueueMessage, held *transaction)

// traits are what a transport must know of a strategy.
type traits struct {
	// minWait is transport.Capabilities.MinWait.
	minWait time.Duration
	open    func(client *Client, channel string) strategy
	// pipelined: a Get can follow settlements that are not proven yet.
	pipelined bool
}

func (s Strategy) traits() traits {
	switch s {
	case StrategyDirect:
		return traits{open: newDirect, pipelined: true}
	case StrategyBatch:
		return traits{open: newBatch, minWait: minGetWait}
	default:
		return traits{open: newSingle, minWait: minGetWait}
	}
}
