package kubemqwire

import (
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
)

// TestPlaceTravels: also through a client that doesn't know the field.
func TestPlaceTravels(t *testing.T) {
	t.Parallel()
	for _, place := range []uint64{1, 127, 128, 1 << 60} {
		sent := &pb.SendQueueMessageResult{MessageID: "id", SentAt: 5}
		SetPlace(sent, place)
		for _, codec := range []encoding.CodecV2{Codec{}, encoding.GetCodecV2(proto.Name)} {
			data, err := codec.Marshal(sent)
			require.NoError(t, err)
			got := &pb.SendQueueMessageResult{}
			require.NoError(t, codec.Unmarshal(data, got))
			require.Equal(t, place, PlaceOf(got))
			require.Equal(t, "id", got.MessageID)
		}
	}
}

func TestNoPlace(t *testing.T) {
	t.Parallel()
	for _, unknown := range [][]byte{nil, {}, {0xff}, placeTag, append([]byte{8, 1}, placeTag...)} {
		require.Zero(t, PlaceOf(&pb.SendQueueMessageResult{XXX_unrecognized: unknown}))
	}
}
