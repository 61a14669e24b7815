package broker

import (
	"fmt"

	pb "github.com/kubemq-io/protobuf/go"
)

// settlement is a kind of request that settles deliveries of a transaction: its
// texts and what it does.
type settlement struct {
	all        bool  // everything that is open, whatever the request lists
	closed     error // the transaction is closed
	noRange    error // the request lists no sequences
	badFormat  string
	needTarget bool
	apply      func(qs *queues, deliveries []*delivery, target string) (*commit, error)
}

// settlementOf returns nil for requests that do not settle.
func settlementOf(kind pb.QueuesDownstreamRequestType) *settlement {
	switch kind {
	case pb.QueuesDownstreamRequestType_AckAll:
		return &settlement{all: true, closed: errAckClosed, apply: settleAck}
	case pb.QueuesDownstreamRequestType_AckRange:
		return &settlement{closed: errAckClosed, noRange: errAckNoRange,
			badFormat: "invalid ack sequence id %d", apply: settleAck}
	case pb.QueuesDownstreamRequestType_NAckAll:
		return &settlement{all: true, closed: errNackClosed, apply: settleNack}
	case pb.QueuesDownstreamRequestType_NAckRange:
		return &settlement{closed: errNackClosed, noRange: errNackNoRange,
			badFormat: "invalid nack sequence id %d", apply: settleNack}
	case pb.QueuesDownstreamRequestType_ReQueueAll:
		// "ack" in two of these texts is the original's.
		return &settlement{all: true, closed: errAckClosed, needTarget: true, apply: settleRequeue}
	case pb.QueuesDownstreamRequestType_ReQueueRange:
		return &settlement{closed: errRequeueClosed, noRange: errRequeueNoRange,
			badFormat: "invalid ack sequence id %d", needTarget: true, apply: settleRequeue}
	default:
		return nil
	}
}

func settleAck(qs *queues, deliveries []*delivery, _ string) (*commit, error) {
	return qs.ack(deliveries), nil
}

func settleNack(qs *queues, deliveries []*delivery, _ string) (*commit, error) {
	return qs.nack(deliveries)
}

func settleRequeue(qs *queues, deliveries []*delivery, target string) (*commit, error) {
	return qs.requeue(deliveries, target)
}

// settle applies s to an open transaction. The elements of a range take effect up
// to the first bad one. The commit is nil if nothing took effect.
func (s *settlement) settle(qs *queues, t *transaction, request *pb.QueuesDownstreamRequest) (*commit, error) {
	if s.needTarget && request.ReQueueChannel == "" {
		return nil, errRequeueNoTarget
	}
	wanted := request.SequenceRange
	if s.all {
		wanted = t.sequences()
	}
	if len(wanted) == 0 {
		return nil, s.noRange
	}
	taken := t.take(wanted)
	var done *commit
	if len(taken) > 0 {
		var err error
		if done, err = s.apply(qs, taken, request.ReQueueChannel); err != nil {
			t.putBack(taken)
			return nil, err
		}
	}
	if len(taken) < len(wanted) {
		return done, fmt.Errorf(s.badFormat, wanted[len(taken)])
	}
	return done, nil
}
