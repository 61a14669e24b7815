package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	resultsrayserve "github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// rayLive is a broker with a worker's backend for Ray Serve.
type rayLive struct {
	*live
	results *resultsrayserve.Backend
}

// enqueue does what the adapter's producers do.
func (l *rayLive) enqueue(t *testing.T, name string, policy *pb.QueueMessagePolicy) (id string) {
	t.Helper()
	id = uuid.NewString()
	require.NoError(t, l.results.Store(t.Context(), meta(id, protocol.StatePending), results.StoreOptions{First: true}))
	body, err := rayserve.EncodeTask(rayserve.Task{ID: id, Name: name, CreatedAt: "2026-11-29T10:00:00+00:00"})
	require.NoError(t, err)
	require.NoError(t, l.client.Send(t.Context(), &pb.QueueMessage{Channel: "models", Body: body, Policy: policy}))
	return id
}

// TestRayServeAttempts: however a task comes again, by a nack that the server counts or a
// copy that carries the count, it is tried as often as the smaller of both limits says,
// and its letter and its FAILURE are there.
func TestRayServeAttempts(t *testing.T) {
	t.Parallel()
	for name, config := range liveBrokers() {
		for _, strategy := range []kubemq.Strategy{kubemq.StrategyAuto, kubemq.StrategySingle, kubemq.StrategyBatch} {
			t.Run(fmt.Sprint(name, " ", strategy), func(t *testing.T) {
				t.Parallel()
				runRayServeAttempts(t, config, strategy)
			})
		}
	}
}

// again are ways for a task to come again, in turn.
var again = []error{
	errors.New("no GPU"), &tasks.RetryError{Cause: errors.New("busy"), Countdown: time.Second},
	tasks.Reject("later", true), &tasks.RetryError{Cause: errors.New("busy"), Countdown: time.Millisecond},
}

func runRayServeAttempts(t *testing.T, config broker.Config, strategy kubemq.Strategy) {
	t.Helper()
	l := &rayLive{live: startLive(t, config)}
	var err error
	l.results, err = resultsrayserve.New(resultsrayserve.Config{Connection: kubemq.Config{Address: l.address}})
	require.NoError(t, err)
	require.NoError(t, l.results.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, l.results.Stop()) })
	connection, err := kubemq.New(kubemq.Config{Address: l.address, Strategy: strategy})
	require.NoError(t, err)
	require.NoError(t, connection.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, connection.Stop()) })

	var mu sync.Mutex
	runs := map[string]int{}
	registry := tasks.NewRegistry()
	for first := range again {
		tasks.HandleArguments(registry, fmt.Sprint("way ", first), func(ctx context.Context, _ tasks.Arguments) (any, error) {
			request, _ := tasks.RequestFrom(ctx)
			mu.Lock()
			defer mu.Unlock()
			n := runs[request.ID]
			runs[request.ID]++
			if request.Attempt != n+1 {
				t.Errorf("run %d is attempt %d", n+1, request.Attempt)
			}
			return nil, again[(first+n)%len(again)]
		})
	}
	letters := &letterHook{}
	registry.AddHook(letters)
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@live", 3, []string{"models"}
	options.RayServe = map[string]RayServeQueue{"models": {MaxRetries: 4, FailedTaskQueue: "failed", Backend: l.results}}
	w, err := New(options, registry, connection, nil)
	require.NoError(t, err)
	startedAt(t, w)

	want := map[string]int{}
	for first := range again {
		for limit, runs := range map[int32]int{0: 4, 1: 1, 2: 2, 9: 4} {
			policy := &pb.QueueMessagePolicy{}
			if limit > 0 {
				policy.MaxReceiveCount, policy.MaxReceiveQueue = limit, "failed"
			}
			want[l.enqueue(t, fmt.Sprint("way ", first), policy)] = runs
		}
	}
	told := func() int {
		letters.mu.Lock()
		defer letters.mu.Unlock()
		return len(letters.told)
	}
	require.Eventually(t, func() bool { return told() >= len(want) }, livePatience, 20*time.Millisecond)
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, want, runs)
	require.Equal(t, len(want), told(), "on_dlq is called once for each")
	require.EqualValues(t, len(want), l.depths(t)["failed"])
	require.Zero(t, l.depths(t)["models"])
	for id := range want {
		m, err := l.results.Fetch(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, protocol.StateFailure, m.Status)
	}
}
