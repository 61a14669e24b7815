package broker

import (
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
)

// memoryStore keeps payloads for as long as the broker runs.
type memoryStore struct {
	mu       sync.RWMutex
	payloads map[uint64]*pb.QueueMessage
}

func newMemoryStore() *memoryStore {
	return &memoryStore{payloads: make(map[uint64]*pb.QueueMessage)}
}

func (s *memoryStore) commit(mutations []mutation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range mutations {
		switch m := &mutations[i]; {
		case m.put != nil && m.payload != nil:
			s.payloads[m.put.id] = m.payload
		case m.remove != nil:
			delete(s.payloads, m.remove.id)
		}
	}
	return nil
}

func (s *memoryStore) payload(id uint64) (*pb.QueueMessage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored, ok := s.payloads[id]
	if !ok {
		return nil, errNotStored
	}
	// Field by field: what is shared (Body, Tags, Policy) is never changed.
	return &pb.QueueMessage{
		MessageID:  stored.MessageID,
		ClientID:   stored.ClientID,
		Metadata:   stored.Metadata,
		Body:       stored.Body,
		Tags:       stored.Tags,
		Attributes: stored.Attributes,
		Policy:     stored.Policy,
	}, nil
}

func (s *memoryStore) load(visitor) error { return nil }

func (s *memoryStore) close() error { return nil }
