package rayserve

import (
	"container/list"
	"sync"

	"github.com/lovage-project/lovage/pkg/protocol"
)

const (
	// maxKept is how many results are kept in memory, as by the adapter, and maxKeptBytes
	// how much of it they may take together.
	maxKept      = 10_000
	maxKeptBytes = 256 << 20
)

// kept is a state that could not be stored yet, as it is written.
type kept struct {
	taskID string
	state  protocol.State
	body   []byte
}

// memory holds what could not be stored, at most one state of each task, the oldest
// first. When it is full, the oldest go.
type memory struct {
	// keeps tells which states no later one replaces.
	keeps func(protocol.State) bool
	most  int
	bytes int

	mu     sync.Mutex
	closed bool
	byID   map[string]*list.Element
	order  *list.List // of *kept
	// cursor is the next one to be tried, nil for the oldest.
	cursor *list.Element
	used   int
}

func newMemory(keeps func(protocol.State) bool) *memory {
	return &memory{keeps: keeps, most: maxKept, bytes: maxKeptBytes, byID: make(map[string]*list.Element), order: list.New()}
}

// put keeps a state in place of an older one of its task, and returns what had to go for
// it, itself maybe. It is false when the memory is closed.
func (m *memory) put(k *kept) (gone []*kept, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, false
	}
	if at, known := m.byID[k.taskID]; known {
		m.replace(at, k)
	} else {
		m.byID[k.taskID] = m.order.PushBack(k)
		m.used += len(k.body)
	}
	for m.order.Len() > m.most || m.used > m.bytes {
		gone = append(gone, m.remove(m.order.Front()))
	}
	return gone, true
}

// replace keeps the place in the order, and a state that no later one replaces.
func (m *memory) replace(at *list.Element, k *kept) {
	old := valueOf(at)
	if m.keeps(old.state) {
		return
	}
	at.Value = k
	m.used += len(k.body) - len(old.body)
}

func (m *memory) remove(at *list.Element) *kept {
	if m.cursor == at {
		m.cursor = at.Next()
	}
	m.order.Remove(at)
	k := valueOf(at)
	m.used -= len(k.body)
	delete(m.byID, k.taskID)
	return k
}

// get is the state of a task, nil if none is kept.
func (m *memory) get(taskID string) *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, known := m.byID[taskID]; known {
		return valueOf(at)
	}
	return nil
}

// next is the one to be tried now, nil if nothing is kept: one after the other, from the
// oldest on, so that none holds up the others.
func (m *memory) next() *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.cursor
	if at == nil {
		at = m.order.Front()
	}
	if at == nil {
		return nil
	}
	m.cursor = at.Next()
	return valueOf(at)
}

// done removes a state, unless a newer one has taken its place.
func (m *memory) done(k *kept) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, known := m.byID[k.taskID]; known && valueOf(at) == k {
		m.remove(at)
	}
}

// forget removes whatever is kept for a task.
func (m *memory) forget(taskID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, known := m.byID[taskID]; known {
		m.remove(at)
	}
}

// close lets nothing more in, and returns what is kept, the oldest first.
func (m *memory) close() []*kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	all := make([]*kept, 0, m.order.Len())
	for at := m.order.Front(); at != nil; at = at.Next() {
		all = append(all, valueOf(at))
	}
	return all
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.order.Len()
}

func valueOf(at *list.Element) *kept {
	k, _ := at.Value.(*kept) // nothing else is put there
	return k
}
