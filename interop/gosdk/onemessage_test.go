//go:build !race

// The SDK's one-message stream has a data race of its own: the end of a stream
// and the receive that began it both write to it, without a lock. So this file is
// not for the race detector; make test-go runs it without.

package gosdk_test

import (
	"testing"
	"time"

	"github.com/kubemq-io/kubemq-go"
	"github.com/stretchr/testify/require"
)

// next receives one message over the SDK's older, one-message stream. The SDK
// uses such a stream once.
func next(t *testing.T, client *kubemq.Client, queue string, visibility int32) *kubemq.QueueMessage {
	t.Helper()
	stream := client.SQM().SetChannel(queue)
	t.Cleanup(stream.Close)
	m, err := stream.Next(t.Context(), visibility, 5)
	require.NoError(t, err)
	return m
}

func TestOneMessageStreams(t *testing.T) {
	client := connect(t)
	ctx := bounded(t)
	send := func(body string) {
		sent, err := client.QM().SetChannel("q").SetBody([]byte(body)).Send(ctx)
		require.NoError(t, err)
		require.False(t, sent.IsError, sent.Error)
	}
	_, err := client.SQM().SetChannel("empty").Next(ctx, 10, 1)
	require.EqualError(t, err, "Error 138: no new message in queue, wait time expired")

	send("one")
	m := next(t, client, "q", 10)
	require.Equal(t, "one", string(m.Body))
	require.NoError(t, m.ExtendVisibility(20))
	require.EqualError(t, m.ExtendVisibility(-1), "Error 127: invalid visibility time, cannot be negative or exceed setting in kubemq config")
	require.NoError(t, m.Reject())

	m = next(t, client, "q", 1)
	require.EqualValues(t, 2, m.Attributes.ReceiveCount)
	// Its visibility time passes: the next receiver waits for that.
	start := time.Now()
	m = next(t, client, "q", 10)
	require.Greater(t, time.Since(start), 500*time.Millisecond)
	require.EqualValues(t, 3, m.Attributes.ReceiveCount)
	require.NoError(t, m.Resend("other"))

	m = next(t, client, "other", 10)
	require.Equal(t, "one", string(m.Body))
	require.EqualValues(t, 1, m.Attributes.ReceiveCount)
	require.NoError(t, m.Ack())

	send("old")
	stream := client.SQM().SetChannel("q")
	defer stream.Close()
	_, err = stream.Next(ctx, 10, 5)
	require.NoError(t, err)
	require.NoError(t, stream.ResendWithNewMessage(client.QM().SetChannel("other").SetBody([]byte("new"))))
	m = next(t, client, "other", 10)
	require.Equal(t, "new", string(m.Body))
	require.NoError(t, m.Ack())
	queues, err := client.QueuesInfo(ctx, "q;other")
	require.NoError(t, err)
	require.Zero(t, queues.Waiting)
}
