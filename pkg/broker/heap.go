package broker

// order says how a heap sorts messages and where a message keeps its place in
// that heap, so that it can be removed from the middle.
type order interface {
	before(a, b *message) bool
	place(m *message) *int32
}

// bySequence is the order of a queue.
type bySequence struct{}

func (bySequence) before(a, b *message) bool { return a.seq < b.seq }
func (bySequence) place(m *message) *int32   { return &m.place }

// byDue is the order in which delayed messages arrive: by due time, then as sent.
type byDue struct{}

func (byDue) before(a, b *message) bool {
	if a.dueAt != b.dueAt {
		return a.dueAt < b.dueAt
	}
	return a.id < b.id
}
func (byDue) place(m *message) *int32 { return &m.place }

// byExpiry is the order in which messages end.
type byExpiry struct{ lifetime }

func (o byExpiry) before(a, b *message) bool { return o.end(a) < o.end(b) }
func (byExpiry) place(m *message) *int32     { return &m.expiry }

// absent is the place of a message that is in no heap.
const absent = -1

// heap is a binary min-heap of messages. Appending the highest and asking for
// the lowest are O(1), everything else O(log n).
type heap[O order] struct {
	items []*message
	order O
}

func (h *heap[O]) len() int { return len(h.items) }

// top is the lowest message; the heap must not be empty.
func (h *heap[O]) top() *message { return h.items[0] }

func (h *heap[O]) push(m *message) {
	h.items = append(h.items, m)
	h.set(len(h.items)-1, m)
	h.up(len(h.items) - 1)
}

func (h *heap[O]) pop() *message {
	m := h.items[0]
	h.remove(m)
	return m
}

// remove takes m out; it does nothing when m is not in the heap.
func (h *heap[O]) remove(m *message) {
	place := h.order.place(m)
	i := int(*place)
	if i == absent {
		return
	}
	last := len(h.items) - 1
	moved := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	*place = absent
	if i < last {
		h.set(i, moved)
		if !h.down(i) {
			h.up(i)
		}
	}
	h.shrink()
}

// shrink gives memory back after a backlog is gone.
func (h *heap[O]) shrink() {
	const small = 64
	if cap(h.items) > small && len(h.items) < cap(h.items)/4 {
		h.items = append(make([]*message, 0, cap(h.items)/2), h.items...)
	}
}

func (h *heap[O]) set(i int, m *message) {
	h.items[i] = m
	*h.order.place(m) = int32(i)
}

func (h *heap[O]) up(i int) {
	m := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.order.before(m, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, m)
}

// down reports whether the message at i moved.
func (h *heap[O]) down(i int) bool {
	m, start := h.items[i], i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.order.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.order.before(h.items[child], m) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, m)
	return i != start
}
