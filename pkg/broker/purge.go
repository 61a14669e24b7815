package broker

import "context"

// ackReady removes what is ready in a queue now, not what comes meanwhile, and
// returns how much that was. It returns when that is durable.
func (qs *queues) ackReady(ctx context.Context, name string) (uint64, error) {
	var total uint64
	limit := qs.lastSequence(name)
	for {
		n, step := qs.ackSome(name, limit)
		if n == 0 {
			return total, nil
		}
		if err := step.wait(ctx); err != nil {
			return total, unavailable(err)
		}
		total += uint64(n)
	}
}

func (qs *queues) lastSequence(name string) uint64 {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byName[name]; q != nil {
		return q.lastSeq
	}
	return 0
}

// ackSome is one step of ackReady, short enough for the lock.
func (qs *queues) ackSome(name string, limit uint64) (int, *commit) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[name]
	if q == nil {
		return 0, nil
	}
	var mutations []mutation
	for len(mutations) < maxSweep && q.ready.len() > 0 && q.ready.top().seq <= limit {
		mutations = append(mutations, qs.discard(q.ready.top()))
	}
	if len(mutations) == 0 {
		return 0, nil
	}
	qs.traffic.acked += uint64(len(mutations))
	qs.touch(q)
	return len(mutations), qs.journal.add(mutations, nil)
}

// empty removes all messages of a queue, ready, delayed and in flight, and the
// queue itself unless somebody waits at it. Settlements of what was in flight
// have no effect then. It returns the changes for the store.
func (qs *queues) empty(q *queue) []mutation {
	var mutations []mutation
	for q.ready.len() > 0 {
		mutations = append(mutations, qs.discard(q.ready.top()))
	}
	for _, m := range qs.delayedOf(q) {
		mutations = append(mutations, qs.discard(m))
	}
	for _, m := range q.held {
		m.gone = true
		q.letGo(m)
		mutations = append(mutations, m.removal())
	}
	q.created = false
	qs.touch(q)
	if q.idle != nil {
		qs.forget(q.idle)
	}
	return mutations
}

// delayedOf lists the delayed messages of a queue. It looks through all delayed
// ones, which only pays because deleting such a queue is rare.
func (qs *queues) delayedOf(q *queue) []*message {
	var found []*message
	if q.delayed == 0 {
		return nil
	}
	for _, m := range qs.delays.items {
		if m.queue == q {
			found = append(found, m)
		}
	}
	return found
}
