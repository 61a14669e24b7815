package kubemqwire

import (
	"strings"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// examples are messages of all shapes: empty, nested, small and pooled.
func examples() []any {
	message := func(body int) *pb.QueueMessage {
		return &pb.QueueMessage{
			MessageID: "id", ClientID: "client", Channel: "channel", Metadata: "{}", Body: make([]byte, body),
			Tags:       map[string]string{"priority": "3"},
			Attributes: &pb.QueueMessageAttributes{Timestamp: 1 << 60, Sequence: 7, ReRouted: true},
			Policy:     &pb.QueueMessagePolicy{ExpirationSeconds: 5},
		}
	}
	return []any{
		&pb.Empty{}, message(1), message(100), message(1 << 20),
		&pb.QueuesDownstreamRequest{RequestID: "1", SequenceRange: []int64{1, 2, 1 << 40}},
		&pb.QueuesDownstreamResponse{Messages: []*pb.QueueMessage{message(10), message(5000)}, Error: strings.Repeat("e", 3)},
		&pb.Event{Body: []byte("x"), Tags: map[string]string{"a": "b"}},
	}
}

// TestTheSameAsGRPCsOwn: what one codec writes is what the other does, and each reads
// what the other wrote.
func TestTheSameAsGRPCsOwn(t *testing.T) {
	t.Parallel()
	own := encoding.GetCodecV2(proto.Name)
	for _, message := range examples() {
		want, err := own.Marshal(message)
		require.NoError(t, err)
		got, err := Codec{}.Marshal(message)
		require.NoError(t, err)
		require.Equal(t, want.Materialize(), got.Materialize(), "%T", message)

		back := emptyLike(t, message)
		require.NoError(t, Codec{}.Unmarshal(want, back))
		require.Equal(t, message, back)
		back = emptyLike(t, message)
		require.NoError(t, own.Unmarshal(got, back))
		require.Equal(t, message, back)
		want.Free()
		got.Free()
	}
	require.Equal(t, own.Name(), Codec{}.Name())
}

// TestReadsAgainAfterItsBufferIsReused: nothing that was read lives in the buffer.
func TestReadsAgainAfterItsBufferIsReused(t *testing.T) {
	t.Parallel()
	data, err := (&pb.QueueMessage{MessageID: "id", Body: []byte("body")}).Marshal()
	require.NoError(t, err)
	got := &pb.QueueMessage{}
	require.NoError(t, Codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, got))
	clear(data)
	require.Equal(t, "id", got.MessageID)
	require.Equal(t, "body", string(got.Body))
}

// TestOtherMessages: those of today's API, as in a health check, go gRPC's way.
func TestOtherMessages(t *testing.T) {
	t.Parallel()
	data, err := Codec{}.Marshal(&health.HealthCheckRequest{Service: "text"})
	require.NoError(t, err)
	got := &health.HealthCheckRequest{}
	require.NoError(t, Codec{}.Unmarshal(data, got))
	require.Equal(t, "text", got.Service)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	garbage := mem.BufferSlice{mem.SliceBuffer{0xff, 0xff}}
	require.ErrorContains(t, Codec{}.Unmarshal(garbage, &pb.QueueMessage{}), "decode *kubemq.QueueMessage")
	require.Error(t, Codec{}.Unmarshal(garbage, 5))
	_, err := Codec{}.Marshal(5)
	require.Error(t, err)
	_, err = Codec{}.Marshal(wrongSize{})
	require.ErrorContains(t, err, "2 bytes, its size is 3")
}

// wrongSize is a message that changes while it is encoded.
type wrongSize struct{ *pb.QueueMessage }

func (wrongSize) Size() int                     { return 3 }
func (wrongSize) MarshalTo([]byte) (int, error) { return 2, nil }

func emptyLike(t *testing.T, message any) any {
	t.Helper()
	switch message.(type) {
	case *pb.Empty:
		return &pb.Empty{}
	case *pb.QueueMessage:
		return &pb.QueueMessage{}
	case *pb.QueuesDownstreamRequest:
		return &pb.QueuesDownstreamRequest{}
	case *pb.QueuesDownstreamResponse:
		return &pb.QueuesDownstreamResponse{}
	case *pb.Event:
		return &pb.Event{}
	}
	t.Fatalf("no empty %T", message)
	return nil
}

// BenchmarkCodec is an answer to a Get and back, with this codec and gRPC's own.
func BenchmarkCodec(b *testing.B) {
	answer := &pb.QueuesDownstreamResponse{TransactionId: "t", RefRequestId: "1"}
	for range 64 {
		answer.Messages = append(answer.Messages, &pb.QueueMessage{
			MessageID: "id", ClientID: "client", Channel: "celery", Metadata: strings.Repeat("m", 700), Body: make([]byte, 1200),
			Tags: map[string]string{"priority": "0"}, Attributes: &pb.QueueMessageAttributes{Timestamp: 1 << 60, Sequence: 7},
			Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 1024},
		})
	}
	for name, codec := range map[string]encoding.CodecV2{"generated": Codec{}, "own": encoding.GetCodecV2(proto.Name)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := codec.Marshal(answer)
				require.NoError(b, err)
				require.NoError(b, codec.Unmarshal(data, &pb.QueuesDownstreamResponse{}))
				data.Free()
			}
		})
	}
}
