package kubemqwire

import (
	"bytes"
	"encoding/binary"

	pb "github.com/kubemq-io/protobuf/go"
)

// placeTag begins a field that the embedded broker adds to the result of a send: a
// number, field 1001, which clients that don't know it skip (docs/protocol.md §10).
var placeTag = binary.AppendUvarint(nil, 1001<<3)

// SetPlace notes with the result of a send which place the message has in its queue.
// The place is its sequence: 1 for the first since the queue was last forgotten, which
// it is only while it is empty.
func SetPlace(result *pb.SendQueueMessageResult, place uint64) {
	result.XXX_unrecognized = binary.AppendUvarint(bytes.Clone(placeTag), place)
}

// PlaceOf is what SetPlace noted; 0 where the server doesn't tell.
func PlaceOf(result *pb.SendQueueMessageResult) uint64 {
	number, ok := bytes.CutPrefix(result.XXX_unrecognized, placeTag)
	if !ok {
		return 0
	}
	place, n := binary.Uvarint(number)
	if n <= 0 {
		return 0
	}
	return place
}
