package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// BenchmarkTask is what the engine adds to a task, from decoding to settling, without a
// broker: the cost per task that docs/performance.md tells of.
func BenchmarkTask(b *testing.B) {
	for name, change := range map[string]func(*Options){
		"early":               func(o *Options) { o.IgnoreResult = true },
		"late":                func(o *Options) { o.IgnoreResult, o.AcksLate = true, true },
		"late, with a result": func(o *Options) { o.AcksLate = true },
	} {
		b.Run(name, func(b *testing.B) {
			registry := tasks.NewRegistry()
			tasks.Handle(registry, "nothing", func(context.Context, struct{ N int }) (int, error) { return 1, nil })
			options := DefaultOptions()
			options.Hostname, options.Concurrency = "celery@bench", 1
			change(&options)
			w, err := New(options, registry, newFakeBroker(&journal{}), noBackend{})
			require.NoError(b, err)
			w.fetchContext, w.workContext, w.settleContext = context.Background(), context.Background(), context.Background()
			bodies := make([][]byte, 1024)
			for i := range bodies {
				bodies[i] = encode(b, &protocol.Message{Task: "nothing", Args: []any{int64(i)}})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%len(bodies) == 0 {
					w.window = newWindow(options.DedupWindow) // the same bodies again
				}
				w.process(&job{delivery: &noDelivery{body: bodies[i%len(bodies)]}, dialect: celery{w}})
			}
		})
	}
}

// noBackend keeps nothing.
type noBackend struct{}

func (noBackend) Store(context.Context, protocol.Meta, results.StoreOptions) error { return nil }
func (noBackend) Fetch(context.Context, string) (protocol.Meta, error) {
	return protocol.Meta{}, results.ErrNotFound
}
func (noBackend) Forget(context.Context, string) error { return nil }
func (noBackend) Start(context.Context) error          { return nil }
func (noBackend) Stop() error                          { return nil }

// noDelivery is settled by nobody.
type noDelivery struct{ body []byte }

func (d *noDelivery) Body() []byte                                         { return d.body }
func (*noDelivery) Queue() string                                          { return "celery" }
func (*noDelivery) Attempt() int                                           { return 1 }
func (*noDelivery) Redelivered() bool                                      { return false }
func (*noDelivery) Limit() (attempts int, queue string)                    { return 0, "" }
func (*noDelivery) NoteError(string)                                       {}
func (*noDelivery) Ack(context.Context) error                              { return nil }
func (*noDelivery) Nack(context.Context) error                             { return nil }
func (*noDelivery) Requeue(context.Context, time.Duration) error           { return nil }
func (*noDelivery) Postpone(context.Context, time.Duration) error          { return nil }
func (*noDelivery) Release(context.Context) error                          { return nil }
func (*noDelivery) DeadLetter(context.Context, transport.DeadLetter) error { return nil }
