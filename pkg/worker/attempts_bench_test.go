package worker

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// BenchmarkMaxAttempts is what the note before each start costs: late tasks that do
// nothing, with and without a limit (docs/decisions/0010).
func BenchmarkMaxAttempts(b *testing.B) {
	for name, config := range map[string]broker.Config{"memory": {}, "disk": {DataDir: b.TempDir()}} {
		for limit, attempts := range map[string]int{"off": 0, "on": 3} {
			b.Run(name+"/"+limit, func(b *testing.B) {
				if config.DataDir != "" {
					config.DataDir = b.TempDir()
				}
				l := startLive(b, config)
				connection := l.transport(b)
				for range b.N {
					l.send(b, connection, protocol.Message{Task: "nothing", ID: uuid.NewString(), Queue: "bench"})
				}
				var left sync.WaitGroup
				left.Add(b.N)
				registry := tasks.NewRegistry()
				tasks.HandleArguments(registry, "nothing", func(context.Context, tasks.Arguments) (any, error) {
					left.Done()
					return nil, nil
				}, tasks.AcksLate(), tasks.IgnoreResult())
				options := DefaultOptions()
				options.Hostname, options.Concurrency, options.Queues = "celery@bench", 8, []string{"bench"}
				options.MaxAttempts, options.DeadLetterQueue = attempts, "dead"
				w, err := New(options, registry, connection, l.backend)
				require.NoError(b, err)
				b.ResetTimer()
				startedAt(b, w)
				left.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}
