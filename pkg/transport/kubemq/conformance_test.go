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

// conformance are the strategies with what the suite must not expect of them.
var conformance = []struct {
	strategy Strategy
	options  []transporttest.Option
}{
	{StrategyAuto, nil},
	{StrategySingle, nil},
	{StrategyBatch, []transporttest.Option{transporttest.SettlingTogether(togetherReason)}},
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, one := range conformance {
		t.Run(string(one.strategy), func(t *testing.T) {
			t.Parallel()
			conform(t, broker.Config{DataDir: t.TempDir(), Sync: broker.SyncOff}, one.strategy, one.options...)
		})
	}
}

// TestConformanceWithTheQuirksOf2023: what the broker does better is not what the
// transport rests on.
func TestConformanceWithTheQuirksOf2023(t *testing.T) {
	t.Parallel()
	for _, one := range conformance {
		t.Run(string(one.strategy), func(t *testing.T) {
			t.Parallel()
			config := broker.Config{DataDir: t.TempDir(), Sync: broker.SyncOff, Quirks: broker.AllQuirks()}
			conform(t, config, one.strategy, one.options...)
		})
	}
}

func conform(t *testing.T, config broker.Config, strategy Strategy, options ...transporttest.Option) {
	t.Helper()
	b := startBroker(t, config)
	proxy := transporttest.NewProxy(t, b.addr())
	transporttest.Run(t, func(t *testing.T) transport.Transport {
		t.Helper()
		tr, err := New(Config{Address: proxy.Addr(), Strategy: strategy, MaxSend: 16 << 20})
		require.NoError(t, err)
		return tr
	}, append(options,
		transporttest.WithCut(func(*testing.T) { proxy.Cut() }),
		transporttest.WithRestart(b.restart))...)
}
