package broker

import (
	"cmp"
	"slices"
)

// nextInWindow is the delayed message that is due first among the oldest ones.
func nextInWindow(delayed []*message) *message {
	oldest := slices.Clone(delayed)
	slices.SortFunc(oldest, func(a, b *message) int { return cmp.Compare(a.id, b.id) })
	oldest = oldest[:min(len(oldest), quirkDelayWindow)]
	return slices.MinFunc(oldest, func(a, b *message) int { return cmp.Compare(a.dueAt, b.dueAt) })
}

// replaceDelayed removes the delayed message that has the MessageID of m. The
// caller holds queues.mu.
func (qs *queues) replaceDelayed(m *message) {
	if !qs.quirks.DelayIndex || m.dueAt == 0 {
		return
	}
	payload, err := qs.store.payload(m.id)
	if err != nil {
		return
	}
	old := qs.quirks.delayed[payload.MessageID]
	qs.quirks.delayed[payload.MessageID] = m
	if old == nil || old.dueAt == 0 || old.place == absent {
		return // it has arrived, or its queue was deleted
	}
	qs.journal.add([]mutation{qs.discard(old)}, nil)
	qs.touch(old.queue)
}
