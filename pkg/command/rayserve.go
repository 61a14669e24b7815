package command

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/worker"
)

// rayServeStore is where the results of some Ray Serve queues go: those whose results
// have the same settings.
type rayServeStore struct {
	prefix string
	expiry time.Duration
	size   int
	queues []string
	// backend is nil until it is made: questions come before that.
	backend atomic.Pointer[rayserve.Backend]
}

// rayServeStores are those of the worker's Ray Serve queues. The result backend of
// Celery's tasks is another one, and may be disabled.
func rayServeStores(queues []config.RayServeQueue) (stores []*rayServeStore) {
	for _, queue := range queues {
		prefix, size := queue.ResultChannelPrefix, queue.MaxResultSize
		expiry := cmp.Or(queue.ResultExpiry, rayserve.MaxExpiry)
		i := slices.IndexFunc(stores, func(s *rayServeStore) bool {
			return s.prefix == prefix && s.expiry == expiry && s.size == size
		})
		if i < 0 {
			i = len(stores)
			stores = append(stores, &rayServeStore{prefix: prefix, expiry: expiry, size: size})
		}
		stores[i].queues = append(stores[i].queues, queue.Name)
	}
	return stores
}

// counts is what the backend has counted.
func (r *rayServeStore) counts() observe.StoreCounts {
	backend := r.backend.Load()
	if backend == nil {
		return observe.StoreCounts{}
	}
	counts := backend.Counts()
	return observe.StoreCounts{Retries: int64(counts.Failed), Kept: int64(counts.Kept), Dropped: int64(counts.Dropped)}
}

// startRayServe starts the backends of Ray Serve queues, and returns what the engine
// needs to know of each queue. They stop after the worker, and try to store what they
// keep.
func (s *stack) startRayServe(
	ctx context.Context, settings *config.Settings, log *observe.Log,
) (map[string]worker.RayServeQueue, error) {
	backends := map[string]results.Backend{}
	for _, store := range s.rayServe {
		backend, err := rayserve.New(rayserve.Config{
			// The broker's own connection tells of the broker; this one would tell it again.
			Connection: kubemqConfig(settings.Broker.Consume, transport.Hooks{}),
			Prefix:     store.prefix, Expiry: store.expiry, MaxResult: store.size,
			Hooks: rayserve.Hooks{Kept: log.ResultKept, Dropped: log.ResultDropped, Replaced: log.ResultReplaced},
		})
		if err != nil {
			return nil, err
		}
		s.stops = append(s.stops, backend.Stop)
		if err := backend.Start(ctx); err != nil {
			return nil, failed(err)
		}
		store.backend.Store(backend)
		for _, queue := range store.queues {
			backends[queue] = backend
		}
	}
	queues := map[string]worker.RayServeQueue{}
	for _, queue := range settings.Worker.RayServe {
		queues[queue.Name] = worker.RayServeQueue{
			MaxRetries: queue.MaxRetries, FailedTaskQueue: queue.FailedTaskQueue,
			UnprocessableTaskQueue: queue.UnprocessableTaskQueue, Backend: backends[queue.Name],
		}
	}
	return queues, nil
}

// rayServeMetrics is nil where the worker has no Ray Serve queue.
func rayServeMetrics(queues []config.RayServeQueue, stores []*rayServeStore, depths *observe.Depths, ready func() error) *observe.RayServe {
	if len(queues) == 0 {
		return nil
	}
	metrics := observe.RayServeConfig{Depths: depths, Ready: ready}
	for _, queue := range queues {
		metrics.Queues = append(metrics.Queues, observe.RayServeQueue{Name: queue.Name, FailedTaskQueue: queue.FailedTaskQueue})
	}
	for _, store := range stores {
		metrics.Stores = append(metrics.Stores, observe.RayServeStore{Queues: store.queues, Counts: store.counts})
	}
	return observe.NewRayServe(metrics)
}
