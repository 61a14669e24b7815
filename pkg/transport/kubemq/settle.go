package kubemq

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// barrierTimeout is how long the answer to a barrier may take. The server works
// a stream off in order, so it can stand behind a Get.
const barrierTimeout = minGetWait + answerMargin

// settlement is one thing to be done with messages of a transaction.
type settlement struct {
	kind        pb.QueuesDownstreamRequestType
	transaction string
	sequences   []int64
	// refused is what the server answered, "" for nothing. The reader writes it
	// before the barrier's answer is read.
	refused string
	// partly tells that the refused request held other settlements too, some of which
	// the server has applied.
	partly bool
	// sent tells that the server may have got it.
	sent bool
	// onSent, if set, is called when it and the barrier behind it are sent.
	onSent func()
	// done receives the outcome, once; settled, if set, is called before.
	done    chan error
	settled func()
}

func newSettlement(kind pb.QueuesDownstreamRequestType, transaction string, sequences ...int64) *settlement {
	return &settlement{kind: kind, transaction: transaction, sequences: sequences, done: make(chan error, 1)}
}

// rank orders settlements of one transaction: giving back everything that is open
// comes after all else.
func (one *settlement) rank() int {
	if one.kind == pb.QueuesDownstreamRequestType_CloseByClient {
		return 1
	}
	return 0
}

func (one *settlement) finish(err error) {
	if one.settled != nil {
		one.settled()
	}
	one.done <- err
}

// unconfirmed is the error of a settlement that ctx didn't let be waited for.
func unconfirmed(ctx context.Context) error {
	return fmt.Errorf("kubemq: settle: %w: %w", transport.ErrUnconfirmed, context.Cause(ctx))
}

// enqueue starts the settlements; false means that the stream is closed. Those that
// come while earlier ones are on their way share the next barrier, and those of
// one kind and transaction one request.
func (s *stream) enqueue(settlements ...*settlement) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.queue = append(s.queue, settlements...)
	if !s.flushing {
		s.flushing = true
		s.flushes.Go(s.flush)
	}
	return true
}

// flush sends what is queued and ends when there is no more.
func (s *stream) flush() {
	for {
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		if len(batch) == 0 {
			s.flushing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		err := s.apply(batch)
		for _, one := range batch {
			switch {
			case one.partly:
				one.finish(fmt.Errorf("kubemq: settle: %w: %s", transport.ErrUnconfirmed, one.refused))
			case one.refused != "":
				one.finish(lostError(one.refused))
			case err != nil && one.sent:
				one.finish(fmt.Errorf("kubemq: settle: %w: %w", transport.ErrUnconfirmed, err))
			case err != nil:
				one.finish(lostError(err.Error()))
			default:
				one.finish(nil)
			}
		}
	}
}

// apply sends a batch and a barrier and waits for the barrier's answer: whatever
// it says, the server has handled what was sent before it.
func (s *stream) apply(batch []*settlement) error {
	for _, group := range grouped(batch) {
		request := &pb.QueuesDownstreamRequest{RequestTypeData: group[0].kind, RefTransactionId: group[0].transaction}
		for _, one := range group {
			request.SequenceRange = append(request.SequenceRange, one.sequences...)
		}
		if err := s.send(request, func(answer *pb.QueuesDownstreamResponse) { refuse(group, answer) }); err != nil {
			return err
		}
		for _, one := range group {
			one.sent = true
		}
		defer s.forget(request)
	}
	if err := s.barrier(batch); err != nil {
		return err
	}
	return s.dropHeld(batch)
}

// barrier asks what has an answer in any case, says that the batch is on its way, and
// waits for the answer.
func (s *stream) barrier(batch []*settlement) error {
	answered := make(chan struct{})
	err := s.send(&pb.QueuesDownstreamRequest{
		RequestTypeData: pb.QueuesDownstreamRequestType_ActiveOffsets, RefTransactionId: batch[len(batch)-1].transaction,
	}, func(*pb.QueuesDownstreamResponse) { close(answered) })
	if err != nil {
		return err
	}
	for _, one := range batch {
		if one.onSent != nil {
			one.onSent()
		}
	}
	defer time.AfterFunc(suspectAfter, s.client.suspect).Stop()
	timer := time.NewTimer(barrierTimeout)
	defer timer.Stop()
	select {
	case <-answered:
		return nil
	case <-timer.C:
		s.cancel(fmt.Errorf("kubemq: settle: %w", errSilent))
		<-s.done
	case <-s.done:
	}
	// An answer that came just before the end counts.
	select {
	case <-answered:
		return nil
	default:
		return s.err
	}
}

// dropHeld ends the stream when the server could not do a settlement: the message
// is still held then, and only the end of the stream gives it back.
func (s *stream) dropHeld(batch []*settlement) error {
	for _, one := range batch {
		if appliedPartly(one.refused) {
			s.cancel(newServerError(one.refused))
			<-s.done
			return s.err
		}
	}
	return nil
}

// refuse notes an answer to a settlement, which only a failed one gets.
func refuse(group []*settlement, answer *pb.QueuesDownstreamResponse) {
	for _, one := range group {
		if one.refused = answer.Error; one.refused == "" {
			one.refused = "unexpected answer to " + one.kind.String()
		}
		one.partly = len(group) > 1 && appliedPartly(one.refused)
	}
}

// appliedPartly tells whether a server that refuses so has applied a range up to the
// message that it speaks of (docs/protocol.md §12.1).
func appliedPartly(refusal string) bool {
	return strings.Contains(refusal, " failed") || strings.HasPrefix(refusal, "invalid ")
}

// grouped puts settlements of one kind and transaction together, in the order of
// their first, so that closing a transaction comes after what it must not undo.
func grouped(batch []*settlement) [][]*settlement {
	type key struct {
		kind        pb.QueuesDownstreamRequestType
		transaction string
	}
	var groups [][]*settlement
	index := make(map[key]int)
	for _, one := range batch {
		k := key{one.kind, one.transaction}
		at, found := index[k]
		if !found {
			at = len(groups)
			index[k] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], one)
	}
	return groups
}

func lostError(reason string) error {
	return fmt.Errorf("kubemq: %w: %s", transport.ErrLost, reason)
}
