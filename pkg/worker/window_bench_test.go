package worker

import (
	"encoding/binary"
	"testing"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// BenchmarkWindow is what the window costs a task with a body of 1 kB: the identity,
// a look, a claim and its end, with the window full.
func BenchmarkWindow(b *testing.B) {
	w := newWindow(16_384)
	body := make([]byte, 1024)
	e := &protocol.Envelope{Body: body, Properties: protocol.Properties{DeliveryTag: "3b6f…"}}
	m := &protocol.Message{Task: "shop.charge", ID: "58b3ef9c-6d0b-4b9c-a1c9-2f6d0b1f1f53"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(body, uint64(i))
		id := identityOf("celery", e, m)
		w.look(id)
		w.begin(id)
		w.end(id, true)
	}
}
