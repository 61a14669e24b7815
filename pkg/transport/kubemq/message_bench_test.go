package kubemq

import (
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// BenchmarkMessage is what is done with a message besides gRPC's own work: made to be
// sent, encoded, decoded, looked at as a delivery, and copied to be sent again.
func BenchmarkMessage(b *testing.B) {
	b.Run("send", func(b *testing.B) {
		outgoing := transport.Outgoing{Body: make([]byte, 1<<10), Headers: make([]byte, 700), Priority: 3}
		b.ReportAllocs()
		for b.Loop() {
			_, err := newMessage("celery", outgoing).Marshal()
			require.NoError(b, err)
		}
	})
	received := message(string(make([]byte, 1<<10)), 7)
	received.Tags = map[string]string{tagPriority: "3"}
	wire, err := received.Marshal()
	require.NoError(b, err)
	b.Run("receive", func(b *testing.B) {
		c := &consumer{queue: "celery"}
		b.ReportAllocs()
		for b.Loop() {
			got := &pb.QueueMessage{}
			require.NoError(b, got.Unmarshal(wire))
			d := newDelivery(c, got, nil)
			if d.Attempt() != 1 || d.Redelivered() {
				b.Fatal("a new message")
			}
			c.history.finish(d.place)
		}
	})
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			copyOf(received, 2, time.Now())
		}
	})
}
