package broker

import (
	"context"
	"math"
	"time"
)

const (
	// maxSleep bounds how long a timer is trusted: it does not notice when the
	// wall clock, which due times refer to, is set or the machine slept.
	maxSleep = 10 * time.Second
	// sweepInterval is the least time between two removals of expired messages.
	// Nobody sees them in between: a delivery checks for itself.
	sweepInterval = time.Second
	// maxSweep bounds the messages that one step moves while it holds the lock.
	maxSweep = 1024
)

// keepTime lets delayed messages arrive and expired ones go until ctx ends.
func (qs *queues) keepTime(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-qs.wakeUp:
		}
		now := time.Now()
		for step := qs.step(now); step != nil; step = qs.step(now) {
			// Waiting keeps a flood out of the journal.
			if step.wait(ctx) != nil {
				return
			}
		}
		timer.Reset(qs.schedule(time.Now())) // not from now: the steps took their time
	}
}

// step lets a bounded number of messages arrive or expire; nil if none do.
func (qs *queues) step(now time.Time) *commit {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if arrived := qs.arrive(now); arrived != nil {
		return arrived
	}
	return qs.expire(now)
}

// wake makes keepTime look at this time, in unix ns, or before.
func (qs *queues) wake(at int64) {
	if at >= qs.wakeAt {
		return
	}
	qs.wakeAt = at
	select {
	case qs.wakeUp <- struct{}{}:
	default:
	}
}

// schedule forgets queues that were idle for long and returns the time until
// there is something to do.
func (qs *queues) schedule(now time.Time) time.Duration {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for qs.idle.Len() > 0 && qs.idleSince()+int64(idleTime) <= now.UnixNano() {
		qs.forget(qs.idle.Front())
	}
	qs.wakeAt = min(qs.nextDue(), qs.nextSweep(), qs.nextIdle())
	if qs.wakeAt == math.MaxInt64 {
		return maxSleep
	}
	return min(time.Duration(qs.wakeAt-now.UnixNano()), maxSleep)
}

func (qs *queues) nextDue() int64 {
	if qs.delays.len() == 0 {
		return math.MaxInt64
	}
	return qs.nextDelayed().dueAt
}

// nextDelayed is the delayed message that arrives first; there must be one.
func (qs *queues) nextDelayed() *message {
	if qs.quirks.DelayWindow {
		return nextInWindow(qs.delays.items)
	}
	return qs.delays.top()
}

func (qs *queues) nextSweep() int64 {
	if qs.expiries.len() == 0 {
		return math.MaxInt64
	}
	return max(qs.expiries.order.end(qs.expiries.top()), qs.swept+int64(sweepInterval))
}

// nextIdle is when queues are forgotten: late enough for a second's worth.
func (qs *queues) nextIdle() int64 {
	if qs.idle.Len() == 0 {
		return math.MaxInt64
	}
	return qs.idleSince() + int64(idleTime+sweepInterval)
}

// idleSince is when the queue that is idle for longest was used.
func (qs *queues) idleSince() int64 {
	return qs.idle.Front().Value.(*queue).active //nolint:forcetypeassert // the list holds nothing else
}

// arrive moves messages whose delay is over to the tail of their queues, in the
// order of their due times. The new place is written like that of a new message,
// so that it is the same after a crash.
func (qs *queues) arrive(now time.Time) *commit {
	var moved []*message
	var mutations []mutation
	for len(moved) < maxSweep && qs.nextDue() <= now.UnixNano() {
		m := qs.nextDelayed()
		qs.delays.remove(m)
		qs.expiries.remove(m)
		m.queue.delayed--
		m.queue.pins++
		m.dueAt = 0
		m.seq = m.queue.nextSequence()
		m.timestamp = now.UnixNano()
		moved = append(moved, m)
		mutations = append(mutations, mutation{put: m.stored()})
	}
	if len(moved) == 0 {
		return nil
	}
	return qs.journal.add(mutations, func() { qs.enterPinned(moved) })
}

// expire removes expired messages from memory and store.
func (qs *queues) expire(now time.Time) *commit {
	if qs.nextSweep() > now.UnixNano() {
		return nil
	}
	var mutations []mutation
	for len(mutations) < maxSweep && qs.expiries.len() > 0 && qs.expiries.order.over(qs.expiries.top(), now) {
		m := qs.expiries.top()
		mutations = append(mutations, qs.discard(m))
		m.queue.counters.expired++
		qs.traffic.expired++
		qs.touch(m.queue)
	}
	if len(mutations) < maxSweep {
		qs.swept = now.UnixNano()
	}
	if len(mutations) == 0 {
		return nil
	}
	return qs.journal.add(mutations, nil)
}
