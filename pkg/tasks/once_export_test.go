package tasks

// Len is how many claims and results it holds.
func (m *OnceMemory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
