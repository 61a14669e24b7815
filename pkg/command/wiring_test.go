package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestConsumeConfig: what the worker publishes has the broker's own limit, unless the
// broker would go by it in the worker's stead.
func TestConsumeConfig(t *testing.T) {
	limited := config.Worker{MaxAttempts: 3, DeadLetterQueue: "dead"}
	for name, c := range map[string]struct {
		settings config.Settings
		counts   bool
		limit    int
		queue    string
	}{
		"no limit": {config.Settings{Worker: config.Worker{DeadLetterQueue: "dead"}}, false, 0, ""},
		"a limit":  {config.Settings{Worker: limited}, false, 3, "dead"},
		"a broker that is not the worker's": {
			config.Settings{Worker: limited, EmbeddedBroker: config.EmbeddedBroker{CountCrashes: true}}, false, 3, "dead",
		},
		"a broker that counts": {
			config.Settings{
				Worker: limited, Broker: config.Broker{Embedded: true}, EmbeddedBroker: config.EmbeddedBroker{CountCrashes: true},
			}, true, 0, "",
		},
	} {
		got := consumeConfig(&c.settings, transport.Hooks{})
		require.Equal(t, c.counts, got.CountsAttempts, name)
		require.Equal(t, c.limit, got.MaxReceiveCount, name)
		require.Equal(t, c.queue, got.MaxReceiveQueue, name)
	}
}
