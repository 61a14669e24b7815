package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// finishedFor is how long a finished message is remembered: as long as Celery
// remembers ids that succeeded (CELERY_WORKER_SUCCESSFUL_EXPIRES).
const finishedFor = 10_800 * time.Second

// identity tells a message that is delivered twice from two messages. Every sending
// makes a new delivery tag, and a copy that hands a message back keeps it: so a
// retry, and a task that is published again under the id of a finished one, are
// other messages. A message without a tag has no identity, "": nothing tells its
// duplicate from a second sending. docs/decisions/0012 says more.
type identity string

func identityOf(queue string, e *protocol.Envelope, m *protocol.Message) identity {
	if e == nil || e.Properties.DeliveryTag == "" {
		return ""
	}
	return hashOf([]string{queue, m.Task, m.ID, e.Properties.DeliveryTag}, m.Retries, e.Body)
}

// hashOf is the identity of a message that is known by these parts, a number and its body.
func hashOf(parts []string, retries int, body []byte) identity {
	// With the length of each part, so that no two lists of parts look alike.
	var head []byte
	for _, part := range parts {
		head = binary.BigEndian.AppendUint64(head, uint64(len(part)))
		head = append(head, part...)
	}
	head = binary.BigEndian.AppendUint64(head, uint64(retries))
	sum := sha256.New()
	for _, part := range [][]byte{head, body} {
		_, _ = sum.Write(part) // a hash returns no errors
	}
	return identity(sum.Sum(nil))
}

// window knows the messages that run here and those that have finished lately. A
// nil window, of size 0, knows none; its methods may be called from any goroutine.
type window struct {
	size int

	mu sync.Mutex
	// running are the messages with a claim; the channel is closed when it ends.
	// There are never more than slots.
	running map[identity]chan struct{}
	// finished says when; order is a ring of them, next its oldest.
	finished map[identity]time.Time
	order    []identity
	next     int
}

func newWindow(size int) *window {
	if size == 0 {
		return nil
	}
	return &window{size: size, running: map[identity]chan struct{}{}, finished: map[identity]time.Time{}}
}

// look tells whether a message has finished; else, if it runs, what is closed when
// it no longer does.
func (w *window) look(id identity) (finished bool, running <-chan struct{}) {
	if w == nil || id == "" {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lookLocked(id)
}

func (w *window) lookLocked(id identity) (finished bool, running <-chan struct{}) {
	if at, ok := w.finished[id]; ok && time.Since(at) < finishedFor {
		return true, nil
	}
	if ended, ok := w.running[id]; ok {
		return false, ended
	}
	return false, nil
}

// begin is look, and a claim where the message has neither finished nor runs. The
// claim is given back by end.
func (w *window) begin(id identity) (finished bool, running <-chan struct{}) {
	if w == nil || id == "" {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	finished, running = w.lookLocked(id)
	if !finished && running == nil {
		w.running[id] = make(chan struct{})
	}
	return finished, running
}

// end ends a claim. finished says that the message must not run again.
func (w *window) end(id identity, finished bool) {
	if w == nil || id == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if finished {
		w.remember(id)
	}
	if ended, ok := w.running[id]; ok {
		delete(w.running, id)
		close(ended)
	}
}

// remember puts id in the place of the oldest, unless it has a place: one whose
// time was over has run again.
func (w *window) remember(id identity) {
	_, known := w.finished[id]
	w.finished[id] = time.Now()
	switch {
	case known:
	case len(w.order) < w.size:
		w.order = append(w.order, id)
	default:
		delete(w.finished, w.order[w.next])
		w.order[w.next] = id
		w.next = (w.next + 1) % w.size
	}
}
