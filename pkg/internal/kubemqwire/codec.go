package kubemqwire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec has gRPC encode KubeMQ's messages with the code that was generated for them;
// it is for grpc.ForceCodecV2 and grpc.ForceServerCodecV2. Messages without such code
// are left to gRPC's own codec.
//
// gRPC's own takes KubeMQ's, which are of the older protobuf API, through an adapter
// that doesn't know their Size: it encodes each message twice, once only to learn how
// long it is, and copies it into its buffer then. Both codecs write the same bytes
// (the test compares them).
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// generated is what the generator made for each of KubeMQ's messages.
type generated interface {
	Size() int
	MarshalTo(into []byte) (int, error)
	Unmarshal(data []byte) error
}

// Name is that of gRPC's own codec: what is on the wire is the same.
func (Codec) Name() string { return proto.Name }

// Marshal is encoding.CodecV2's.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(generated)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Marshal(v)
	}
	size := message.Size()
	if mem.IsBelowBufferPoolingThreshold(size) {
		data := make([]byte, size)
		if err := marshalTo(message, data); err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(data)}, nil
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(size)
	if err := marshalTo(message, *buffer); err != nil {
		pool.Put(buffer)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}

// marshalTo fills data, which has the message's size.
func marshalTo(message generated, data []byte) error {
	n, err := message.MarshalTo(data)
	if err != nil {
		return fmt.Errorf("kubemqwire: encode %T: %w", message, err)
	}
	if n != len(data) {
		return fmt.Errorf("kubemqwire: encode %T: %d bytes, its size is %d", message, n, len(data))
	}
	return nil
}

// Unmarshal is encoding.CodecV2's, into an empty message as gRPC gives it. The
// generated code copies what it keeps.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(generated)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	if err := message.Unmarshal(buffer.ReadOnlyData()); err != nil {
		return fmt.Errorf("kubemqwire: decode %T: %w", message, err)
	}
	return nil
}
