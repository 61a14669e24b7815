//go:build kubemq

package kubemq

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

// The suite against a KubeMQ server; LOVAGE_KUBEMQ_RESTART, if set, is a shell
// command that restarts it.
//
// The 2023 server slows down when many Gets wait, hence -parallel:
//
//	LOVAGE_KUBEMQ_ADDRESS=localhost:50000 go test -tags kubemq -parallel 2 -run Real ./pkg/transport/kubemq
func TestRealServer(t *testing.T) {
	address := os.Getenv("LOVAGE_KUBEMQ_ADDRESS")
	require.NotEmpty(t, address, "LOVAGE_KUBEMQ_ADDRESS names the server to test against")
	for _, strategy := range []Strategy{StrategyAuto, StrategySingle, StrategyBatch} {
		t.Run(string(strategy), func(t *testing.T) {
			proxy := transporttest.NewProxy(t, address)
			options := []transporttest.Option{transporttest.WithCut(func(*testing.T) { proxy.Cut() })}
			if command := os.Getenv("LOVAGE_KUBEMQ_RESTART"); command != "" {
				options = append(options, transporttest.WithRestart(func(t *testing.T) {
					t.Helper()
					output, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
					require.NoError(t, err, string(output))
				}))
			}
			if strategy == StrategyBatch {
				options = append(options, transporttest.SettlingTogether(togetherReason))
			}
			transporttest.Run(t, func(t *testing.T) transport.Transport {
				t.Helper()
				tr, err := New(Config{Address: proxy.Addr(), Strategy: strategy, MaxSend: 16 << 20})
				require.NoError(t, err)
				return tr
			}, options...)
		})
	}
}

func BenchmarkRealServer(b *testing.B) {
	address := os.Getenv("LOVAGE_KUBEMQ_ADDRESS")
	require.NotEmpty(b, address, "LOVAGE_KUBEMQ_ADDRESS names the server to measure")
	for _, strategy := range []Strategy{StrategySingle, StrategyBatch} {
		benchmarkWork(b, address, strategy)
	}
}
