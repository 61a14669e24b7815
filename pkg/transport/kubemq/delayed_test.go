package kubemq

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// bothKinds runs a test against the broker as it is and with the quirks of 2023.
func bothKinds(t *testing.T, config broker.Config, test func(t *testing.T, b *embedded)) {
	t.Helper()
	quirky := config
	quirky.Quirks = broker.AllQuirks()
	for name, config := range map[string]broker.Config{"clean": config, "quirks": quirky} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startBroker(t, config))
		})
	}
}

// TestDelayedMessagesAreCounted is T-K7: what waits for its time can be seen, and more
// than the window of the 2023 server is noted once.
func TestDelayedMessagesAreCounted(t *testing.T) {
	t.Parallel()
	bothKinds(t, broker.Config{}, func(t *testing.T, b *embedded) {
		t.Helper()
		notes := make(chan string, 10)
		tr := started(t, Config{
			Address: b.addr(), Strategy: StrategySingle, Hooks: transport.Hooks{Note: func(text string) { notes <- text }},
		})
		<-notes // the strategy
		later := transport.Outgoing{Body: []byte("x"), Delay: time.Hour}
		require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("now")}))
		require.Zero(t, tr.Delayed())
		require.NoError(t, received(t, opened(t, tr, "q"), 1)[0].Requeue(t.Context(), time.Hour))
		require.Equal(t, 1, tr.Delayed(), "a requeue counts")
		for range delayWindow - 1 {
			require.NoError(t, tr.Publish(t.Context(), "q", later))
		}
		require.Empty(t, notes)
		for range 2 {
			require.NoError(t, tr.Publish(t.Context(), "q", later))
		}
		require.Equal(t, delayWindow+2, tr.Delayed())
		require.Contains(t, <-notes, "more than 1024 messages wait")
		require.Empty(t, notes, "noted once")
	})
}

func TestWhatIsDueIsNotOutstanding(t *testing.T) {
	t.Parallel()
	var o outstanding
	now := time.Unix(1000, 0)
	require.False(t, o.add(now, now.Add(time.Second)))
	require.False(t, o.add(now, now.Add(3*time.Second)))
	require.Equal(t, 2, o.count(now))
	require.Equal(t, 1, o.count(now.Add(time.Second)))
	require.Zero(t, o.count(now.Add(time.Minute)))
	require.Empty(t, o.due)
}

// TestDelaysEndBeforeTheRetention is T-K10: a message that the broker would have
// removed when it is due is refused, and hops are shorter than that.
func TestDelaysEndBeforeTheRetention(t *testing.T) {
	t.Parallel()
	bothKinds(t, broker.Config{Retention: 3 * time.Second}, func(t *testing.T, b *embedded) {
		t.Helper()
		tr := started(t, Config{Address: b.addr(), Strategy: StrategySingle, Retention: 3 * time.Second})
		require.Equal(t, 2*time.Second, tr.Capabilities().MaxDelay)
		err := tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x"), Delay: 4 * time.Second})
		require.ErrorIs(t, err, transport.ErrDelay)
		require.ErrorContains(t, err, "delay of 4s")
		require.ErrorContains(t, err, "keeps messages for 3s")
		require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
		c := opened(t, tr, "q")
		begun := time.Now()
		require.NoError(t, received(t, c, 1)[0].Requeue(t.Context(), time.Hour))
		hop := received(t, c, 1)[0]
		require.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
		require.Equal(t, 2, hop.Attempt())
		require.NoError(t, hop.Ack(t.Context()))
	})
}

// TestRetentionIsNotGuessed: without one the broker's own limit is all there is.
func TestRetentionIsNotGuessed(t *testing.T) {
	t.Parallel()
	tr, err := New(Config{Address: "broker:1"})
	require.NoError(t, err)
	require.Equal(t, DefaultMaxDelay, tr.Capabilities().MaxDelay)
	require.NoError(t, tr.Stop())
	tr, err = New(Config{Address: "broker:1", Retention: 24 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, DefaultMaxDelay, tr.Capabilities().MaxDelay, "the lower one holds")
	require.NoError(t, tr.Stop())
}
