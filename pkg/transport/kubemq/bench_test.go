package kubemq

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// BenchmarkWork is T-K2: late-acked work from a backlog, slots handlers of a fixed time
// each. "ideal" is the share of slots/time that was reached. The strategies that
// the quirks of 2023 allow are measured with them too.
func BenchmarkWork(b *testing.B) {
	for _, kind := range []struct {
		name       string
		quirks     broker.Quirks
		strategies []Strategy
	}{
		{"clean", broker.Quirks{}, []Strategy{StrategyDirect, StrategySingle, StrategyBatch}},
		{"quirks", broker.AllQuirks(), []Strategy{StrategySingle, StrategyBatch}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			server, err := broker.New(broker.Config{Listen: "127.0.0.1:0", Quirks: kind.quirks})
			require.NoError(b, err)
			require.NoError(b, server.Start(b.Context()))
			defer func() { require.NoError(b, server.Stop()) }()
			for _, strategy := range kind.strategies {
				benchmarkWork(b, server.Addr().String(), strategy)
			}
		})
	}
}

func benchmarkWork(b *testing.B, address string, strategy Strategy) {
	b.Helper()
	for _, load := range []struct {
		slots   int
		handler time.Duration
	}{{1, 0}, {8, 0}, {8, 20 * time.Millisecond}, {32, 100 * time.Millisecond}} {
		b.Run(fmt.Sprintf("%s/%dx%s", strategy, load.slots, load.handler), func(b *testing.B) {
			tr, err := New(Config{Address: address, Strategy: strategy})
			require.NoError(b, err)
			require.NoError(b, tr.Start(b.Context()))
			defer func() { require.NoError(b, tr.Stop()) }()
			queue := fmt.Sprintf("bench.%s.%d", strategy, time.Now().UnixNano())
			var publishing sync.WaitGroup
			for part := range 8 {
				publishing.Go(func() {
					for i := part; i < b.N; i += 8 {
						if err := tr.Publish(b.Context(), queue, transport.Outgoing{Body: make([]byte, 256)}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			publishing.Wait()
			b.ResetTimer()
			work(b, tr, queue, load.slots, load.handler)
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "msg/s")
			if load.handler > 0 {
				b.ReportMetric(rate*load.handler.Seconds()/float64(load.slots), "ideal")
			}
		})
	}
}

// work is the smallest engine: reserve slots, receive, handle, ack, give the slot
// back.
func work(b *testing.B, tr transport.Transport, queue string, slots int, handler time.Duration) {
	b.Helper()
	c, err := tr.Consumer(queue)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	done := make(map[string]struct{})
	total := 0
	for ctx.Err() == nil {
		reserved := 0
		select {
		case <-free:
			reserved++
		case <-ctx.Done():
		}
		for reserved > 0 && reserved < slots && len(free) > 0 {
			<-free
			reserved++
		}
		if reserved == 0 {
			break
		}
		got := 0
		err := c.Receive(ctx, transport.ReceiveRequest{Slots: reserved, Wait: time.Second}, func(d transport.Delivery) {
			got++
			running.Go(func() {
				<-time.After(handler)
				if err := d.Ack(b.Context()); err != nil {
					b.Error(err)
				}
				free <- struct{}{}
				mu.Lock()
				defer mu.Unlock()
				total++
				done[d.(*delivery).message.MessageID] = struct{}{}
				if len(done) == b.N {
					cancel()
				}
			})
		})
		require.NoError(b, err)
		for range reserved - got {
			free <- struct{}{}
		}
	}
	running.Wait()
	b.ReportMetric(float64(total-len(done)), "dups")
}

// BenchmarkPublish measures confirmed messages from many senders.
func BenchmarkPublish(b *testing.B) {
	server, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(b, err)
	require.NoError(b, server.Start(b.Context()))
	defer func() { require.NoError(b, server.Stop()) }()
	for _, senders := range []int{1, 64} {
		b.Run(strconv.Itoa(senders), func(b *testing.B) {
			tr, err := New(Config{Address: server.Addr().String(), Strategy: StrategyDirect})
			require.NoError(b, err)
			require.NoError(b, tr.Start(b.Context()))
			defer func() { require.NoError(b, tr.Stop()) }()
			b.ReportAllocs()
			b.SetParallelism(senders)
			b.RunParallel(func(each *testing.PB) {
				for each.Next() {
					if err := tr.Publish(b.Context(), "bench", transport.Outgoing{Body: make([]byte, 256)}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
