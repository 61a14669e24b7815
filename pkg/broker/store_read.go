package broker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	pb "github.com/kubemq-io/protobuf/go"
)

// payloads reads with one iterator. What a Get takes was mostly stored together,
// so each block is read and decompressed once, where a read for each message
// would do so for each message.
func (s *diskStore) payloads(ids []uint64) ([]*pb.QueueMessage, error) {
	found := make([]*pb.QueueMessage, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	iterator, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: messageKey(keyPayload, slices.Min(ids)),
		UpperBound: messageKey(keyPayload, slices.Max(ids)+1),
	})
	if err != nil {
		return nil, fmt.Errorf("broker: read messages: %w", describe(err))
	}
	for i, id := range ids {
		if found[i], err = read(iterator, id); err != nil {
			break
		}
	}
	if err := errors.Join(err, iterator.Close()); err != nil {
		return nil, fmt.Errorf("broker: read messages: %w", describe(err))
	}
	return found, nil
}

// read returns the payload of a message, nil if it is not stored. The cheap step
// comes first: the next message in the store is often the next one wanted.
func read(iterator *pebble.Iterator, id uint64) (*pb.QueueMessage, error) {
	key := messageKey(keyPayload, id)
	at := iterator.Valid() && iterator.Next() && bytes.Equal(iterator.Key(), key)
	if !at && (!iterator.SeekGE(key) || !bytes.Equal(iterator.Key(), key)) {
		return nil, iterator.Error()
	}
	value, err := iterator.ValueAndErr()
	if err != nil {
		return nil, err
	}
	message := &pb.QueueMessage{}
	if err := message.Unmarshal(value); err != nil {
		return nil, fmt.Errorf("message %d: %w", id, err)
	}
	return message, nil
}
