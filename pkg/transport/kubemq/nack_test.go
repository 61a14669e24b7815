package kubemq

import (
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestNacksOfAPlainMessage: one that knows nothing of us is counted by the server
// alone, whoever nacks it, so that other consumers of its queue see the same count and
// its own limit holds.
func TestNacksOfAPlainMessage(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]broker.Config{"embedded": {}, "2023": {Quirks: broker.AllQuirks()}} {
		for _, strategy := range []Strategy{StrategyAuto, StrategySingle, StrategyBatch} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				tr := started(t, Config{Address: startBroker(t, config).addr(), Strategy: strategy})
				nacksOfAPlainMessage(t, tr, 3, 0)
				nacksOfAPlainMessage(t, tr, 4, 2)
			})
		}
	}
}

// nacksOfAPlainMessage nacks to the limit; one of the nacks may be a stranger's.
func nacksOfAPlainMessage(t *testing.T, tr *Transport, limit, strangers int) {
	t.Helper()
	require.NoError(t, tr.publisher.Send(t.Context(), &pb.QueueMessage{
		Channel: "plain", Body: []byte("x"), Tags: map[string]string{"mine": "kept"},
		Policy: &pb.QueueMessagePolicy{MaxReceiveCount: int32(limit), MaxReceiveQueue: "failed"},
	}))
	for attempt := 1; attempt <= limit; attempt++ {
		if attempt == strangers {
			nackAsStranger(t, tr.publisher, "plain", attempt)
			continue
		}
		c, err := tr.Consumer("plain")
		require.NoError(t, err)
		d := received(t, c, 1)[0]
		require.Equal(t, attempt, d.Attempt())
		most, queue := d.Limit()
		require.Equal(t, limit, most)
		require.Equal(t, "failed", queue)
		require.NoError(t, d.Nack(t.Context()))
		require.NoError(t, c.Close())
	}
	var letters []transport.Delivery
	require.NoError(t, opened(t, tr, "failed").Receive(t.Context(),
		transport.ReceiveRequest{Slots: 1, Wait: patience, AutoAck: true},
		func(d transport.Delivery) { letters = append(letters, d) }))
	require.Len(t, letters, 1, "one receive finds it")
	letter := letters[0].(*delivery).message
	require.Equal(t, "x", string(letter.Body))
	require.Equal(t, map[string]string{"mine": "kept"}, letter.Tags, "the server moved it as it was")
	require.Equal(t, "plain", letter.Attributes.ReRoutedFromQueue)
}

// nackAsStranger takes a message as a client without this package does, and nacks it.
func nackAsStranger(t *testing.T, client *Client, channel string, attempt int) {
	t.Helper()
	st, err := openStream(t.Context(), client)
	require.NoError(t, err)
	defer st.close()
	answer, err := st.get(channel, 1, patience)
	require.NoError(t, err)
	require.Len(t, answer.Messages, 1)
	require.EqualValues(t, attempt, answer.Messages[0].Attributes.ReceiveCount)
	nack := newSettlement(pb.QueuesDownstreamRequestType_NAckRange, answer.TransactionId, int64(answer.Messages[0].Attributes.Sequence))
	st.enqueue(nack)
	require.NoError(t, <-nack.done)
}
