package kubemq

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

const patience = time.Minute

// started opens a transport that is stopped at the end of the test.
func started(t *testing.T, config Config) *Transport {
	t.Helper()
	tr, err := New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Stop()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, tr.Start(ctx))
	return tr
}

func opened(t *testing.T, tr *Transport, queue string) transport.Consumer {
	t.Helper()
	c, err := tr.Consumer(queue)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// received asks until n messages have come.
func received(t *testing.T, c transport.Consumer, n int) []transport.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []transport.Delivery
	for len(got) < n && ctx.Err() == nil {
		require.NoError(t, c.Receive(ctx, transport.ReceiveRequest{Slots: n - len(got), Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
	}
	require.Len(t, got, n)
	return got
}

// within waits until check passes.
func within(t *testing.T, check func() bool, what string) {
	t.Helper()
	require.Eventually(t, check, patience, 5*time.Millisecond, what)
}
