package broker

import (
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// delivery is a message in flight and what its payload says about settling it.
type delivery struct {
	*message
	policy   *pb.QueueMessagePolicy
	rerouted bool // it is a dead letter
}

// mustDeadLetter reports whether a nack of this delivery is one too many. A
// limit of 0, which only dead letters have, is none.
func (d *delivery) mustDeadLetter() bool {
	limit := d.policy.GetMaxReceiveCount()
	return limit > 0 && d.count+1 >= limit
}

// ack removes deliveries for good.
func (qs *queues) ack(deliveries []*delivery) *commit {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	mutations := make([]mutation, 0, len(deliveries))
	for _, d := range deliveries {
		if d.gone {
			continue
		}
		d.queue.letGo(d.message)
		qs.traffic.acked++
		qs.touch(d.queue)
		mutations = append(mutations, d.removal())
	}
	return qs.journal.add(mutations, nil)
}

// release hands deliveries back as if they had not been taken: to their old
// places, with an unchanged receive count. Nothing is written, because the
// store never knew that they were in flight.
func (qs *queues) release(deliveries []*delivery) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, d := range deliveries {
		if d.gone {
			continue
		}
		d.queue.letGo(d.message)
		qs.enter(d.message)
	}
}

// nack hands deliveries back to the tail of their queue, one attempt older. The
// last attempt goes to the dead letter queue instead, or nowhere if the message
// names none.
func (qs *queues) nack(deliveries []*delivery) (*commit, error) {
	moves := make([]move, 0, len(deliveries))
	for _, d := range deliveries {
		m, err := qs.nackMove(d)
		if err != nil {
			return nil, fmt.Errorf("nack message with seq %d failed, %w", d.seq, err)
		}
		moves = append(moves, m)
	}
	return qs.move(moves), nil
}

// requeue sends deliveries anew to a queue: count and expiration start again.
func (qs *queues) requeue(deliveries []*delivery, target string) (*commit, error) {
	moves := make([]move, 0, len(deliveries))
	for _, d := range deliveries {
		m, err := qs.requeueMove(d, target)
		if err != nil {
			return nil, fmt.Errorf("re-queue message with seq %d failed, %w", d.seq, err)
		}
		moves = append(moves, m)
	}
	return qs.move(moves), nil
}

// move is a settlement that puts a message somewhere else. One commit takes it
// from its old place and to the new one, so it is neither lost nor doubled.
type move struct {
	*delivery
	target    string // "" = removed
	count     int32
	expiresAt int64
	payload   *pb.QueueMessage // replaces the stored one, if set
	// nacked and dead say that it is a nack, and that it is one too many.
	nacked, dead bool
}

func (qs *queues) nackMove(d *delivery) (move, error) {
	if !d.mustDeadLetter() {
		return move{delivery: d, target: d.queue.name, count: d.count + 1, expiresAt: d.expiresAt, nacked: true}, nil
	}
	m := move{delivery: d, target: d.policy.GetMaxReceiveQueue(), expiresAt: d.expiresAt, dead: true}
	if m.target == "" {
		return m, nil
	}
	payload, err := qs.store.payload(d.id)
	if err != nil {
		return move{}, err
	}
	// A dead letter has no policy, hence no second dead letter queue.
	payload.Policy = &pb.QueueMessagePolicy{}
	payload.Attributes = &pb.QueueMessageAttributes{ReRouted: true, ReRoutedFromQueue: d.queue.name}
	m.payload = payload
	return m, nil
}

func (qs *queues) requeueMove(d *delivery, target string) (move, error) {
	if err := qs.checkTarget(target); err != nil {
		return move{}, err
	}
	m := move{delivery: d, target: target}
	if expiration := d.policy.GetExpirationSeconds(); expiration > 0 {
		m.expiresAt = time.Now().Add(seconds(expiration)).UnixNano()
	}
	if !d.rerouted {
		return m, nil
	}
	// Sent anew, a dead letter is an ordinary message again.
	payload, err := qs.store.payload(d.id)
	if err != nil {
		return move{}, err
	}
	payload.Policy = storedPolicy(payload.Policy)
	payload.Attributes = nil
	m.payload = payload
	return m, nil
}

func (qs *queues) checkTarget(name string) error {
	if err := validateQueueName(name); err != nil {
		return err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	_, err := qs.queue(name)
	return err
}

// move puts messages at the tail of their targets, visible when that is durable.
func (qs *queues) move(moves []move) *commit {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now().UnixNano()
	moved := make([]*message, 0, len(moves))
	mutations := make([]mutation, 0, len(moves))
	for _, to := range moves {
		m := to.message
		if m.gone {
			continue
		}
		from := m.queue
		from.letGo(m)
		qs.count(to)
		if to.target == "" {
			mutations = append(mutations, m.removal())
		} else {
			m.queue = qs.obtain(to.target)
			m.queue.pins++
			m.state = state{seq: m.queue.nextSequence(), timestamp: now, expiresAt: to.expiresAt, count: to.count}
			if to.payload != nil {
				m.size = int32(to.payload.Size())
			}
			moved = append(moved, m)
			mutations = append(mutations, mutation{put: m.stored(), payload: to.payload})
			qs.touch(m.queue)
		}
		qs.touch(from)
	}
	return qs.journal.add(mutations, func() { qs.enterPinned(moved) })
}

func (qs *queues) count(to move) {
	switch {
	case to.nacked:
		qs.traffic.nacked++
	case to.dead:
		qs.traffic.deadLettered++
	}
}
