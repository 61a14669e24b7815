package broker

import "container/list"

// queue is one queue in memory. Guarded by queues.mu.
type queue struct {
	name    string
	lastSeq uint64
	ready   heap[bySequence]
	held    map[uint64]*message // in flight, by sequence
	waiters *list.List          // of *claim, in the order in which they are served; nil if none
	created bool                // by create-channel: stays when it is empty

	pins    int           // messages in the journal that will enter the queue, and waiting claims
	delayed int           // messages in queues.delays
	group   *group        // a quirk, nil without
	idle    *list.Element // in queues.idle while nothing keeps the queue
	active  int64         // last send or receive, unix ns

	readyBytes, heldBytes int64
	counters              queueCounters
}

// queueCounters count since the queue came into memory.
type queueCounters struct {
	sentBytes, delivered, deliveredBytes, expired int64
}

// nextSequence is the place of a new message: the tail.
func (q *queue) nextSequence() uint64 {
	q.lastSeq++
	return q.lastSeq
}

// empty reports whether nothing needs the queue to be in memory.
func (q *queue) empty() bool {
	return !q.created && q.pins == 0 && q.delayed == 0 && q.ready.len() == 0 &&
		len(q.held) == 0 && q.waiters == nil && q.group.size() == 0
}

// hold notes that m, which was ready, is in flight.
func (q *queue) hold(m *message) {
	if q.held == nil {
		q.held = make(map[uint64]*message, 1)
	}
	q.held[m.seq] = m
	q.heldBytes += int64(m.size)
	q.counters.delivered++
	q.counters.deliveredBytes += int64(m.size)
}

// letGo takes m out of flight, whatever becomes of it.
func (q *queue) letGo(m *message) {
	delete(q.held, m.seq)
	q.heldBytes -= int64(m.size)
	if len(q.held) == 0 {
		q.held = nil
	}
}

// waiting is what clients read as the depth of a queue: ready and in flight.
func (q *queue) waiting() int64 { return int64(q.ready.len() + len(q.held)) }

// lineUp puts a claim in line, at the end that add stands for.
func (q *queue) lineUp(c *claim, add func(*list.List, any) *list.Element) {
	if q.waiters == nil {
		q.waiters = list.New()
	}
	c.line = add(q.waiters, c)
}

// leaveLine takes a claim out of the line, if it is in it.
func (q *queue) leaveLine(c *claim) {
	if c.line == nil {
		return
	}
	q.waiters.Remove(c.line)
	c.line = nil
	if q.waiters.Len() == 0 {
		q.waiters = nil
	}
}

// wakeNext tells the first claim in line that something is ready, and takes it
// out of the line: the next message wakes the next claim.
func (q *queue) wakeNext() {
	q.group.dispatch()
	if q.ready.len() == 0 || q.waiters == nil {
		return
	}
	c := q.waiters.Front().Value.(*claim) //nolint:forcetypeassert // the list holds nothing else
	q.leaveLine(c)
	c.woken <- struct{}{}
}
