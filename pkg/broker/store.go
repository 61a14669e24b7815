package broker

import (
	pb "github.com/kubemq-io/protobuf/go"
)

// store keeps messages and created channels. commit is called by the journal
// only, one call at a time; the rest may be called at any time.
type store interface {
	// commit applies all mutations or none, and returns when they are durable.
	// After an error the store is not used for writing again.
	commit(mutations []mutation) error
	// payload returns a copy whose top-level fields the caller may change.
	payload(id uint64) (*pb.QueueMessage, error)
	// payloads is payload for many: one entry for each id, nil for what is not
	// stored.
	payloads(ids []uint64) ([]*pb.QueueMessage, error)
	// load reports what is stored, messages by ascending id. It is called once,
	// before anything else.
	load(visit visitor) error
	// failed is closed when the store broke by itself, as in background work;
	// failure is then the reason. Reads may go on.
	failed() <-chan struct{}
	failure() error
	close() error
}

// visitor receives the contents of a store when it is opened.
type visitor struct {
	message func(stored storedMessage)
	channel func(channel channelKey)
}

// storedMessage is the index entry as it is stored.
type storedMessage struct {
	id      uint64
	channel string
	size    int32
	state
}

// channelKey names a created channel.
type channelKey struct {
	kind string // the channel_type of the internal channel: queues, events, …
	name string
}

// removal names a message to be deleted and the size of its payload.
type removal struct {
	id   uint64
	size int32
}

// mutation is one change. Exactly one of the fields says what it is.
type mutation struct {
	// put stores the state of a message, and its payload unless that is nil,
	// which leaves the stored one as it is.
	put     *storedMessage
	payload *pb.QueueMessage
	// remove deletes a message.
	remove *removal
	// create and drop add and delete a created channel.
	create, drop *channelKey
}
