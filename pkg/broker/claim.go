package broker

import (
	"container/list"
	"context"
	"time"
)

// maxBatchBytes bounds the messages of one answer together; a larger message
// comes alone. It is the receive limit that gRPC clients have by default: an
// answer above it kills the client's stream, and the same again after it
// reconnects.
const maxBatchBytes = 4<<20 - 64<<10

// want says what a claim is for.
type want struct {
	queue string
	max   int           // messages, at least 1
	wait  time.Duration // for a first message; 0 or less = what is ready now
	peek  bool          // look, do not take
}

// claim is a request for the messages of one queue. It has its place in line
// from the moment lineUp returns.
type claim struct {
	queues *queues
	want
	// messages are in flight for this claim; copies if it only peeks.
	messages []*message
	// expired counts messages that were found expired, and removed.
	expired int

	woken chan struct{} // capacity 1: there may be something ready
	line  *list.Element // in queue.waiters, nil while not in line
	in    *queue        // whose line, nil if the claim does not wait

	member *member // a quirk, nil without
}

// lineUp takes what is ready, or puts the claim in line if nothing is. The
// caller goes on with await.
func (qs *queues) lineUp(ctx context.Context, w want) (*claim, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	c := &claim{queues: qs, want: w}
	if q := qs.byName[w.queue]; q != nil {
		c.take(ctx, q)
		qs.touch(q)
	}
	if len(c.messages) > 0 || w.wait <= 0 {
		return c, nil
	}
	if qs.waiting >= qs.config.MaxWaiting {
		return nil, &limitError{what: "waiting requests", limit: qs.config.MaxWaiting}
	}
	q, err := qs.queue(w.queue)
	if err != nil {
		return nil, err
	}
	qs.waiting++
	q.pins++ // a claim that was woken is not in line, and needs the queue all the same
	c.in = q
	c.woken = make(chan struct{}, 1)
	q.lineUp(c, (*list.List).PushBack)
	qs.touch(q)
	return c, nil
}

// await waits for messages if lineUp found none. It returns when there are
// some, when the wait is over, or when ctx ends, in which case the claim has
// taken nothing.
func (c *claim) await(ctx context.Context) {
	if c.in == nil {
		return
	}
	timer := time.NewTimer(c.wait)
	defer timer.Stop()
	for {
		select {
		case <-c.woken:
			if c.linger(ctx, timer.C) || c.retry(ctx) {
				c.leave(ctx)
				return
			}
		case <-timer.C:
			c.leave(ctx)
			return
		case <-ctx.Done():
			c.leave(ctx)
			return
		}
	}
}

// linger gives a batch a moment to fill. It reports whether the wait ended
// meanwhile.
func (c *claim) linger(ctx context.Context, over <-chan time.Time) bool {
	if c.queues.config.Linger == 0 || c.peek || c.enough() {
		return false
	}
	timer := time.NewTimer(c.queues.config.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-over:
		return true
	case <-ctx.Done():
		return true
	}
}

func (c *claim) enough() bool {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	return c.in.ready.len() >= c.max
}

// retry takes what is ready after a wake-up. When somebody else was faster the
// claim goes back to the head of the line.
func (c *claim) retry(ctx context.Context) bool {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	c.take(ctx, c.in)
	if len(c.messages) > 0 {
		return true
	}
	c.in.lineUp(c, (*list.List).PushFront)
	return false
}

// leave ends the wait. A wake-up that this claim does not use goes to the next
// in line.
func (c *claim) leave(ctx context.Context) {
	c.queues.mu.Lock()
	defer c.queues.mu.Unlock()
	c.queues.waiting--
	c.in.pins--
	c.in.leaveLine(c)
	if len(c.messages) == 0 {
		c.take(ctx, c.in)
	}
	c.in.wakeNext()
	c.queues.touch(c.in)
}

// take moves ready messages into flight, or copies them for a peek. A claim
// whose client is gone takes nothing.
func (c *claim) take(ctx context.Context, q *queue) {
	if ctx.Err() != nil {
		return
	}
	for _, m := range c.gather(q) {
		if c.peek {
			c.queues.addReady(m)
			seen := *m
			m = &seen
		} else {
			q.hold(m)
			c.queues.traffic.delivered++
		}
		c.messages = append(c.messages, m)
	}
}

// gather removes up to max messages from the head of the queue. Expired ones are
// dropped on the way: they never count towards max, and an answer is not empty
// because of them.
func (c *claim) gather(q *queue) []*message {
	var gathered []*message
	var expired []mutation
	now, bytes := time.Now(), 0
	for len(gathered) < c.max && q.ready.len() > 0 {
		m := q.ready.top()
		if c.queues.expiries.order.over(m, now) {
			expired = append(expired, c.queues.discard(m))
			continue
		}
		bytes += m.deliveredSize()
		if len(gathered) > 0 && bytes > maxBatchBytes {
			break
		}
		c.queues.removeReady(m)
		gathered = append(gathered, m)
	}
	if len(expired) > 0 {
		c.expired += len(expired)
		q.counters.expired += int64(len(expired))
		c.queues.traffic.expired += uint64(len(expired))
		c.queues.journal.add(expired, nil)
	}
	return gathered
}
