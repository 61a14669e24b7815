package broker

import (
	"math"
	"time"
)

// lifetime says when messages end: at their own expiration or when they are older
// than the broker keeps them, whichever is first.
type lifetime struct{ retention int64 } // in ns, 0 = for ever

// end is when m is to be removed, in unix ns; math.MaxInt64 is never.
func (l lifetime) end(m *message) int64 {
	end := int64(math.MaxInt64)
	if m.expiresAt != 0 {
		end = m.expiresAt
	}
	if l.retention != 0 && m.timestamp < end-l.retention {
		end = m.timestamp + l.retention
	}
	return end
}

func (l lifetime) over(m *message, now time.Time) bool { return l.end(m) <= now.UnixNano() }

// watch makes keepTime remove m, which is not in flight, at its end. Only a
// message with an end costs a place in the heap.
func (qs *queues) watch(m *message) {
	if m.dueAt != 0 && qs.expiries.order.retention == 0 {
		return // the expiration runs from the end of the delay
	}
	if qs.expiries.order.end(m) != math.MaxInt64 {
		qs.expiries.push(m)
		qs.wake(qs.nextSweep())
	}
}
