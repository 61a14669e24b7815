package kubemq

import (
	"crypto/sha256"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// maxHistory bounds the unsettled messages that a consumer remembers.
	maxHistory = 65_536
	// doneWindow is how many settled messages a consumer remembers: one that comes
	// again does so within seconds.
	doneWindow = 16_384
	// maxPlaceID bounds what is kept of an id, which the sender of a message chooses.
	maxPlaceID = 64
)

// history is what a consumer knows of messages that the server doesn't tell.
//
// A message that comes back after a lost connection is not counted by the server;
// the consumer that had it before knows. And where several consumers share a
// queue, the 2023 server delivers some messages again that it has acked; so does
// every server with one whose ack was on its way when the connection broke.
type history struct {
	mu sync.Mutex
	// seen are the messages without a proven settlement, and how often they came.
	seen map[place]int
	// done are the last settled ones; order is a ring of them, next its oldest.
	done  map[place]struct{}
	order []place
	next  int
}

// place is one message in one queue.
type place struct {
	id       string
	sequence uint64
}

func placeOf(message *pb.QueueMessage) place {
	id := message.MessageID
	if len(id) > maxPlaceID {
		sum := sha256.Sum256([]byte(id))
		id = string(sum[:])
	}
	return place{id: id, sequence: message.Attributes.GetSequence()}
}

// add notes a delivery and returns how many there were before.
func (h *history) add(p place) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = make(map[place]int)
	}
	if len(h.seen) >= maxHistory {
		for known := range h.seen {
			delete(h.seen, known) // any one
			break
		}
	}
	h.seen[p]++
	return h.seen[p] - 1
}

// remove forgets a message that went back to its place.
func (h *history) remove(p place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, p)
}

// finish notes that a message is proven to be gone from its place.
func (h *history) finish(p place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, p)
	if h.done == nil {
		h.done = make(map[place]struct{})
	}
	h.done[p] = struct{}{}
	if len(h.order) < doneWindow {
		h.order = append(h.order, p)
		return
	}
	delete(h.done, h.order[h.next])
	h.order[h.next] = p
	h.next = (h.next + 1) % doneWindow
}

// isDone tells whether a message is one that was settled lately.
func (h *history) isDone(p place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, done := h.done[p]
	return done
}
