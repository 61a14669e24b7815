package kubemq

import (
	"crypto/rand"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

// BenchmarkRecord writes the record of a result, and reads it among others.
func BenchmarkRecord(b *testing.B) {
	backend := &Backend{prefix: DefaultPrefix, form: celery{}}
	record := protocol.Meta{
		TaskID: "5c5b8d2e-7a0e-4a6f-9a53-5b9b7a1f0c11", Status: protocol.StateSuccess, Result: int64(5), DateDone: time.Now(),
	}
	message, err := backend.message(record)
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := backend.message(record)
			require.NoError(b, err)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := newest(backend.form, []*pb.QueueMessage{message}, record.TaskID)
			require.NoError(b, err)
		}
	})
}

// BenchmarkStore stores results from many goroutines.
func BenchmarkStore(b *testing.B) {
	server, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(b, err)
	require.NoError(b, server.Start(b.Context()))
	defer func() { require.NoError(b, server.Stop()) }()
	backend := open(b, server.Addr().String(), transport.Hooks{})
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(each *testing.PB) {
		for each.Next() {
			record := protocol.Meta{TaskID: rand.Text(), Status: protocol.StateSuccess}
			if err := backend.Store(b.Context(), record, results.StoreOptions{}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "results/s")
}
