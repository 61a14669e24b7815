package kubemq

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestAutoAckAsksForOneMessage: together these would be an answer that the client
// refuses, and the server has acked them.
func TestAutoAckAsksForOneMessage(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{StrategyDirect, StrategySingle, StrategyBatch} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			const size, count = 1 << 20, 6
			tr := started(t, Config{
				Address: startBroker(t, broker.Config{}).addr(), Strategy: strategy, MaxReceive: size + overhead,
			})
			for i := range count {
				body := bytes.Repeat([]byte{'a' + byte(i)}, size)
				require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: body}))
			}
			c := opened(t, tr, "q")
			got := 0
			within(t, func() bool {
				request := transport.ReceiveRequest{Slots: count - got, Wait: time.Second, AutoAck: true}
				require.NoError(t, c.Receive(t.Context(), request, func(transport.Delivery) { got++ }))
				return got == count
			}, "every message")
		})
	}
}
