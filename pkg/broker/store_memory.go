package broker

import (
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
)

// memoryStore keeps payloads for as long as the broker runs.
type memoryStore struct {
	mu   sync.RWMutex
	byID map[uint64]*pb.QueueMessage
}

func newMemoryStore() *memoryStore {
	return &memoryStore{byID: make(map[uint64]*pb.QueueMessage)}
}

func (s *memoryStore) commit(mutations []mutation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range mutations {
		switch m := &mutations[i]; {
		case m.put != nil && m.payload != nil:
			s.byID[m.put.id] = m.payload
		case m.remove != nil:
			delete(s.byID, m.remove.id)
		}
	}
	return nil
}

func (s *memoryStore) payload(id uint64) (*pb.QueueMessage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored, ok := s.byID[id]
	if !ok {
		return nil, errNotStored
	}
	return copyPayload(stored), nil
}

func (s *memoryStore) payloads(ids []uint64) ([]*pb.QueueMessage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := make([]*pb.QueueMessage, len(ids))
	for i, id := range ids {
		if stored, ok := s.byID[id]; ok {
			found[i] = copyPayload(stored)
		}
	}
	return found, nil
}

// copyPayload copies field by field: what is shared (Body, Tags, Policy) is never
// changed.
func copyPayload(stored *pb.QueueMessage) *pb.QueueMessage {
	return &pb.QueueMessage{
		MessageID:  stored.MessageID,
		ClientID:   stored.ClientID,
		Metadata:   stored.Metadata,
		Body:       stored.Body,
		Tags:       stored.Tags,
		Attributes: stored.Attributes,
		Policy:     stored.Policy,
	}
}

func (s *memoryStore) load(visitor) error { return nil }

func (s *memoryStore) failed() <-chan struct{} { return nil }

func (s *memoryStore) failure() error { return nil }

func (s *memoryStore) close() error { return nil }
