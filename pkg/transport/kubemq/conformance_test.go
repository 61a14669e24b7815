package kubemq

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

// togetherReason is why strategy batch can't pass some tests.
const togetherReason = "strategy batch settles several deliveries together"

// embedded is a broker that can be restarted at the same address.
type embedded struct {
	mu      sync.Mutex
	config  broker.Config
	running *broker.Broker
}

func startBroker(t *testing.T, config broker.Config) *embedded {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	e := &embedded{config: config}
	e.start(t)
	t.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		require.NoError(t, e.running.Stop())
	})
	return e
}

func (e *embedded) start(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := broker.New(e.config)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	e.running = b
	e.config.Listen = b.Addr().String()
}

func (e *embedded) addr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running.Addr().String()
}

func (e *embedded) stop(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NoError(t, e.running.Stop())
}

func (e *embedded) restart(t *testing.T) {
	t.Helper()
	e.stop(t)
	e.start(t)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		strategy Strategy
		options  []transporttest.Option
	}{
		{StrategyAuto, nil},
		{StrategySingle, nil},
		{StrategyBatch, []transporttest.Option{transporttest.SettlingTogether(togetherReason)}},
	} {
		t.Run(string(one.strategy), func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Config{DataDir: t.TempDir(), Sync: broker.SyncOff})
			proxy := transporttest.NewProxy(t, b.addr())
			transporttest.Run(t, func(t *testing.T) transport.Transport {
				t.Helper()
				tr, err := New(Config{Address: proxy.Addr(), Strategy: one.strategy, MaxSend: 16 << 20})
				require.NoError(t, err)
				return tr
			}, append(one.options,
				transporttest.WithCut(func(*testing.T) { proxy.Cut() }),
				transporttest.WithRestart(b.restart))...)
		})
	}
}
