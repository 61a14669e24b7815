package broker

import (
	pb "github.com/kubemq-io/protobuf/go"
)

// message is the index entry of one stored message: what is needed to order,
// hand out and expire it. The rest, its payload, is in the store under id.
//
// Guarded by queues.mu; while a commit that moves the message is in the journal
// nobody else holds it.
type message struct {
	id    uint64 // the key in the store, never changes
	queue *queue
	state
	size   int32 // of the payload, in bytes
	place  int32 // in the heap that holds it: the queue's ready or the delays
	expiry int32 // in the heap of expirations, -1 if not there
	gone   bool  // its queue was deleted while it was in flight
}

// state is the part of a message that changes during its life.
type state struct {
	seq       uint64 // place in the queue, 0 while delayed
	timestamp int64  // when it entered the queue, unix ns
	expiresAt int64  // unix ns, 0 = never
	dueAt     int64  // end of the delay, unix ns, 0 = not delayed
	count     int32  // nacks so far
}

// deliveredSize is about what m adds to an answer: its payload, its channel, and
// 64 bytes of attributes and framing.
func (m *message) deliveredSize() int { return int(m.size) + len(m.queue.name) + 64 }

// deliver completes a payload to what a client receives. DelayedTo is 0 on
// delivery, as with the original.
func (m *message) deliver(payload *pb.QueueMessage) *pb.QueueMessage {
	attributes := &pb.QueueMessageAttributes{
		Timestamp:    m.timestamp,
		Sequence:     m.seq,
		ReceiveCount: m.count + 1,
		ExpirationAt: m.expiresAt,
	}
	if from := payload.GetAttributes().GetReRoutedFromQueue(); from != "" {
		attributes.ReRouted = true
		attributes.ReRoutedFromQueue = from
	}
	payload.Channel = m.queue.name
	payload.Attributes = attributes
	return payload
}
