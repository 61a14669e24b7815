package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/protocol"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

const (
	// rigSlots is the concurrency: no more tasks than that are unsettled at a time.
	rigSlots = 8
	// rigPatience bounds everything that should happen.
	rigPatience = 2 * time.Minute
	rigTask     = "rig.count"
)

// rig is a worker as the command line builds it, with a network in between that
// can be made to fail, and a broker that can be restarted.
type rig struct {
	t      *testing.T
	config broker.Config
	broker *broker.Broker
	proxy  *transporttest.Proxy
	stack  *stack
	listen string // of the health checks
	// direct reach the broker past the network.
	publisher *kubemq.Transport
	reader    *resultskubemq.Backend

	mu sync.Mutex
	// started and ended count the calls of the handler by its argument.
	started, ended map[int64]int
	ids            []string
}

func newRig(t *testing.T, brokerConfig broker.Config) *rig {
	t.Helper()
	r := &rig{t: t, config: brokerConfig, started: map[int64]int{}, ended: map[int64]int{}}
	r.config.Listen = "127.0.0.1:0"
	r.startBroker()
	t.Cleanup(func() { require.NoError(t, r.broker.Stop()) })
	r.proxy = transporttest.NewProxy(t, r.config.Listen)
	r.connect()
	r.startWorker()
	return r
}

func (r *rig) startBroker() {
	b, err := broker.New(r.config)
	require.NoError(r.t, err)
	require.NoError(r.t, b.Start(r.t.Context()))
	r.broker, r.config.Listen = b, b.Addr().String()
}

// connect opens what reaches the broker directly.
func (r *rig) connect() {
	var err error
	r.publisher, err = kubemq.New(kubemq.Config{Address: r.config.Listen, Strategy: kubemq.StrategySingle})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, r.publisher.Stop()) })
	require.NoError(r.t, r.publisher.Start(r.t.Context()))
	r.reader, err = resultskubemq.New(resultskubemq.Config{Connection: kubemq.Config{Address: r.config.Listen}})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, r.reader.Stop()) })
}

func (r *rig) startWorker() {
	r.listen = freeAddress(r.t)
	file := filepath.Join(r.t.TempDir(), "celery.yaml")
	text := fmt.Sprintf("broker_url: kubemq://%[1]s\nresult_backend: kubemq://%[1]s\nworker_concurrency: %[2]d\n"+
		"task_acks_late: true\nhealth: {listen: %[3]q}\n", r.proxy.Addr(), rigSlots, r.listen)
	require.NoError(r.t, os.WriteFile(file, []byte(text), 0o600))
	settings, _, err := config.Load(config.Source{Path: file})
	require.NoError(r.t, err)
	logger, err := observe.NewLogger(io.Discard, observe.Console, "info")
	require.NoError(r.t, err)
	registry := tasks.NewRegistry()
	tasks.Handle(registry, rigTask, r.handle)
	p := &program{registry: registry, out: io.Discard, errOut: io.Discard}
	r.stack, err = p.start(r.t.Context(), settings, logger)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), rigPatience)
		defer cancel()
		require.NoError(r.t, r.stack.worker.Stop(ctx))
		require.NoError(r.t, r.stack.stop())
	})
}

type rigArgument struct {
	N      int64 `celery:"n"`
	Millis int64 `celery:"millis"`
}

// handle works for a while.
func (r *rig) handle(ctx context.Context, in rigArgument) (int64, error) {
	r.note(r.started, in.N)
	select {
	case <-time.After(time.Duration(in.Millis) * time.Millisecond):
	case <-ctx.Done():
	}
	r.note(r.ended, in.N)
	return in.N, nil
}

func (r *rig) note(counts map[int64]int, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts[n]++
}

// publish sends tasks that run for so long.
func (r *rig) publish(count int, runs time.Duration) {
	r.t.Helper()
	first := len(r.ids)
	for range count {
		r.ids = append(r.ids, uuid.NewString())
	}
	var all errgroup.Group
	all.SetLimit(32)
	for n := first; n < len(r.ids); n++ {
		all.Go(func() error {
			envelope, err := protocol.EncodeMessage(&protocol.Message{
				Task: rigTask, ID: r.ids[n], Args: []any{int64(n), runs.Milliseconds()}, Queue: "celery",
			}, protocol.EncodeOptions{Protocol: protocol.Protocol2, Serializer: "json"})
			if err != nil {
				return err
			}
			body, headers, err := envelope.Wire(uuid.NewString())
			if err != nil {
				return err
			}
			return r.publisher.Publish(r.t.Context(), "celery", transport.Outgoing{Body: body, Headers: headers})
		})
	}
	require.NoError(r.t, all.Wait())
}

// await waits until check passes.
func (r *rig) await(what string, check func() bool) {
	r.t.Helper()
	patience := time.NewTimer(rigPatience)
	defer patience.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !check() {
		select {
		case <-look.C:
		case <-patience.C:
			r.t.Fatalf("not within %v: %s; %d tasks have ended", rigPatience, what, r.count(r.ended))
		}
	}
}

// count is how many tasks have started, or ended, at least once.
func (r *rig) count(counts map[int64]int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(counts)
}

// again is how often tasks have started that had started before.
func (r *rig) again() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	extra := 0
	for _, times := range r.started {
		extra += times - 1
	}
	return extra
}

// checkResults reads the result of every task.
func (r *rig) checkResults() {
	r.t.Helper()
	var all errgroup.Group
	all.SetLimit(16)
	for n, id := range r.ids {
		all.Go(func() error {
			meta, err := r.reader.Wait(r.t.Context(), id)
			if err == nil && (meta.Status != protocol.StateSuccess || meta.Result != int64(n)) {
				err = fmt.Errorf("task %d: %s, %v", n, meta.Status, meta.Result)
			}
			return err
		})
	}
	require.NoError(r.t, all.Wait())
}

// isReady asks as a container's probe does.
func (r *rig) isReady() bool {
	r.t.Helper()
	var out strings.Builder
	p := &program{out: &out, errOut: io.Discard}
	ctx, cancel := context.WithTimeout(r.t.Context(), healthPatience)
	defer cancel()
	return p.askHealth(ctx, r.listen, "/readyz") == nil
}
