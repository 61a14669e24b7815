package tasks

import (
	"context"
	"sync"
	"time"
)

// sampled is how many entries a claim looks at to find some whose time is over: more
// than one, so that those never pile up.
const sampled = 3

// OnceMemory is a store of Once in this process: other workers don't see it, and it
// is empty after a restart. It forgets what is over by itself.
type OnceMemory struct {
	mu      sync.Mutex
	entries map[string]onceEntry
}

var _ OnceStore = (*OnceMemory)(nil)

// onceEntry is a claim, or a result; neither counts after until.
type onceEntry struct {
	owner  string
	done   bool
	result []byte
	until  time.Time
}

// NewOnceMemory returns an empty store.
func NewOnceMemory() *OnceMemory {
	return &OnceMemory{entries: map[string]onceEntry{}}
}

// Claim is OnceStore's.
func (m *OnceMemory) Claim(ctx context.Context, key, owner string, lease time.Duration) (OnceState, error) {
	if err := ctx.Err(); err != nil {
		return OnceState{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	entry, found := m.current(key)
	switch {
	case found && entry.done:
		return OnceState{Done: true, Result: entry.result}, nil
	case found && entry.owner != owner:
		return OnceState{}, nil
	}
	m.entries[key] = onceEntry{owner: owner, until: time.Now().Add(lease)}
	return OnceState{Claimed: true}, nil
}

// Done is OnceStore's.
func (m *OnceMemory) Done(ctx context.Context, key string, result []byte, keep time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry, found := m.current(key); !found || !entry.done {
		m.entries[key] = onceEntry{done: true, result: append([]byte(nil), result...), until: time.Now().Add(keep)}
	}
	return nil
}

// Release is OnceStore's.
func (m *OnceMemory) Release(ctx context.Context, key, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry, found := m.current(key); found && !entry.done && entry.owner == owner {
		delete(m.entries, key)
	}
	return nil
}

// current is the entry of a key if it still counts.
func (m *OnceMemory) current(key string) (onceEntry, bool) {
	entry, found := m.entries[key]
	return entry, found && time.Now().Before(entry.until)
}

// sweep removes what is over among a few entries, which a map hands out in no order.
func (m *OnceMemory) sweep() {
	looked := 0
	for key := range m.entries {
		if _, counts := m.current(key); !counts {
			delete(m.entries, key)
		}
		if looked++; looked == sampled {
			return
		}
	}
}
