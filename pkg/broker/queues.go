package broker

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleTime is how long an empty queue stays known, so that a consumer's
	// queue does not flicker in listings between two of its requests.
	idleTime = time.Minute
	// maxIdle bounds the empty queues that are kept for that.
	maxIdle = 10_000
)

// queues is the index of everything stored, and the operations on it.
type queues struct {
	config  Config
	store   store
	journal *journal
	// stopping is set before the broker ends its clients' streams.
	stopping atomic.Bool

	mu       sync.Mutex
	byName   map[string]*queue
	channels map[channelKey]struct{} // created ones, of every kind
	idle     *list.List              // of *queue, longest idle first
	delays   heap[byDue]
	expiries heap[byExpiry]
	lastID   uint64
	waiting  int // claims in line
	traffic  traffic

	quirks *quirkState

	wakeAt int64         // when keepTime looks again, unix ns
	swept  int64         // when it last removed expired messages, unix ns
	wakeUp chan struct{} // capacity 1: wakeAt was moved forward
}

// traffic counts what happened to messages since the broker started. Nacked leaves
// out the last attempt, which makes a dead letter or drops the message.
type traffic struct {
	sent, delivered, acked, nacked, deadLettered, expired uint64
}

// openQueues loads what the store holds. The caller runs the journal and
// keepTime, and stops them before it closes the store.
func openQueues(config Config, store store) (*queues, error) {
	qs := &queues{
		config:   config,
		store:    store,
		byName:   make(map[string]*queue),
		channels: make(map[channelKey]struct{}),
		idle:     list.New(),
		wakeUp:   make(chan struct{}, 1),
		quirks:   newQuirkState(config.Quirks),
	}
	qs.expiries.order.retention = int64(config.Retention)
	qs.journal = newJournal(store, &qs.mu)
	err := store.load(visitor{message: qs.restore, channel: qs.restoreChannel})
	if err != nil {
		return nil, err
	}
	return qs, nil
}

// restore indexes a message that was stored earlier. What was in flight then is
// ready now.
func (qs *queues) restore(stored storedMessage) {
	q := qs.obtain(stored.channel)
	m := &message{id: stored.id, queue: q, state: stored.state, size: stored.size, place: absent, expiry: absent}
	qs.lastID = max(qs.lastID, m.id)
	q.lastSeq = max(q.lastSeq, m.seq)
	qs.enter(m)
}

func (qs *queues) restoreChannel(key channelKey) {
	qs.channels[key] = struct{}{}
	if key.kind == kindQueues {
		q := qs.obtain(key.name)
		q.created = true
		qs.touch(q)
	}
}

// queue finds or creates the queue of this name, within the bound of
// Config.MaxQueues.
func (qs *queues) queue(name string) (*queue, error) {
	if qs.byName[name] == nil && len(qs.byName) >= qs.config.MaxQueues {
		if qs.idle.Len() == 0 {
			return nil, &limitError{what: "queues", limit: qs.config.MaxQueues}
		}
		qs.forget(qs.idle.Front())
	}
	return qs.obtain(name), nil
}

// obtain is queue without the bound, for messages that are already stored: a
// dead letter is never refused.
func (qs *queues) obtain(name string) *queue {
	q := qs.byName[name]
	if q == nil {
		q = &queue{name: name, active: time.Now().UnixNano()}
		qs.byName[name] = q
		q.idle = qs.idle.PushBack(q)
	}
	return q
}

// touch notes that q was used, and keeps it from being forgotten exactly while
// something needs it. Every operation on a queue ends with it.
func (qs *queues) touch(q *queue) {
	q.active = time.Now().UnixNano()
	switch {
	case !q.empty():
		if q.idle != nil {
			qs.idle.Remove(q.idle)
			q.idle = nil
		}
	case q.idle != nil:
		qs.idle.MoveToBack(q.idle)
	default:
		q.idle = qs.idle.PushBack(q)
		qs.wake(qs.nextIdle())
	}
	if qs.idle.Len() > maxIdle {
		qs.forget(qs.idle.Front())
	}
}

// forget drops an idle queue from memory. When the name is used again its
// sequences start from 1: nobody holds a message of the old ones.
func (qs *queues) forget(e *list.Element) {
	q := qs.idle.Remove(e).(*queue) //nolint:forcetypeassert // the list holds nothing else
	q.idle = nil
	if qs.byName[q.name] == q { // not one that has its name meanwhile
		delete(qs.byName, q.name)
	}
}

// enter puts a stored message where it belongs: into the delays, or to its
// place among the ready ones.
func (qs *queues) enter(m *message) {
	if m.dueAt != 0 {
		m.queue.delayed++
		qs.delays.push(m)
		qs.wake(m.dueAt)
		qs.watch(m)
	} else {
		qs.addReady(m)
		m.queue.wakeNext()
	}
	qs.touch(m.queue)
}

// addReady makes m available at the place its sequence gives it.
func (qs *queues) addReady(m *message) {
	m.queue.ready.push(m)
	m.queue.readyBytes += int64(m.size)
	qs.watch(m)
}

// removeReady takes m out of what is available.
func (qs *queues) removeReady(m *message) {
	m.queue.ready.remove(m)
	m.queue.readyBytes -= int64(m.size)
	qs.expiries.remove(m)
}

// discard removes a message that is not in flight from memory and returns the
// change that removes it from the store.
func (qs *queues) discard(m *message) mutation {
	if m.dueAt != 0 {
		qs.delays.remove(m)
		qs.expiries.remove(m)
		m.queue.delayed--
	} else {
		qs.removeReady(m)
	}
	return m.removal()
}

// removal is the change that deletes m from the store.
func (m *message) removal() mutation { return mutation{remove: &removal{id: m.id, size: m.size}} }

// stored is m as it is written to the store.
func (m *message) stored() *storedMessage {
	return &storedMessage{id: m.id, channel: m.queue.name, size: m.size, state: m.state}
}
