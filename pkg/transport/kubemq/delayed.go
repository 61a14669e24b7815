package kubemq

import (
	"math"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// delayWindow is how many delayed messages the 2023 server looks at; later ones
// wait for them, whatever their own time (docs/protocol.md §15).
const delayWindow = 1024

// longestKept is the longest delay after which the broker still has the message. A
// tenth of the retention is left for a broker that is late, or down when it is due.
func (c Config) longestKept() time.Duration {
	if c.Retention == 0 {
		return math.MaxInt64
	}
	return max(time.Second, (c.Retention - c.Retention/10).Truncate(time.Second))
}

// Delayed is how many messages this process sent with a delay, retries and hops
// included, that are not due yet. A server of 2023 delivers more than 1,024, of all its
// clients together, late (docs/decisions/0013-delay-window.md).
func (t *Transport) Delayed() int { return t.delayed.count(time.Now()) }

// countDelayed notes a message that was sent.
func (t *Transport) countDelayed(message *pb.QueueMessage) {
	delay := time.Duration(message.Policy.GetDelaySeconds()) * time.Second
	if delay == 0 {
		return
	}
	now := time.Now()
	if t.delayed.add(now, now.Add(delay)) && t.traits.minWait > 0 { // a server of that kind
		t.note("more than %d messages wait for their time: a server of 2023 delivers the later ones late", delayWindow)
	}
}

// outstanding counts the delayed messages that are not due yet, by the second in
// which they are.
type outstanding struct {
	mu    sync.Mutex
	due   map[int64]int
	total int
	swept int64 // the second before which nothing is left
	above bool  // it went above delayWindow once
}

// add counts a message, and reports whether it is the first above delayWindow.
func (o *outstanding) add(now, due time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.due == nil {
		o.due = make(map[int64]int)
	}
	o.sweep(now)
	o.due[due.Unix()]++
	o.total++
	if o.total <= delayWindow || o.above {
		return false
	}
	o.above = true
	return true
}

// count returns how many are not due at this time.
func (o *outstanding) count(now time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	return o.total
}

// sweep forgets what is due, once for each second.
func (o *outstanding) sweep(now time.Time) {
	if now.Unix() <= o.swept {
		return
	}
	o.swept = now.Unix()
	for second, messages := range o.due {
		if second <= o.swept {
			o.total -= messages
			delete(o.due, second)
		}
	}
}
