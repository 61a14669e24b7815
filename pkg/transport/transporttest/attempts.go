package transporttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// noteStart says that the delivery is about to be worked on, and returns how often
// that came to nothing before.
func noteStart(t *testing.T, d transport.Delivery) int {
	t.Helper()
	noter, ok := d.(transport.StartNoter)
	require.True(t, ok, "a broker that doesn't count has a note kept for it")
	wasted, err := noter.NoteStart(t.Context())
	require.NoError(t, err)
	return wasted
}

// startsAreCounted: a message whose worker is gone comes back, and any other worker
// knows how often that happened.
func (s *suite) startsAreCounted(t *testing.T) {
	t.Helper()
	queue := queueName()
	publish(t, s.start(t), queue, "x")
	for lost := range 3 {
		tr := s.start(t)
		skipCounting(t, tr)
		c, err := tr.Consumer(queue)
		require.NoError(t, err)
		d := one(t, c)
		require.Equal(t, lost, noteStart(t, d))
		require.Equal(t, lost+1, d.Attempt())
		require.NoError(t, tr.Stop()) // unsettled
	}
	tr := s.start(t)
	c := consumer(t, tr, queue)
	d := one(t, c)
	require.Equal(t, 3, noteStart(t, d))
	require.NoError(t, d.Release(t.Context()))
	d = one(t, c)
	require.Equal(t, 3, noteStart(t, d), "a release is no attempt")
	require.NoError(t, d.Nack(t.Context()))
	d = one(t, c)
	require.Equal(t, 5, d.Attempt(), "a nack is")
	require.NoError(t, d.Requeue(t.Context(), 0))
	d = one(t, c)
	require.Equal(t, 6, d.Attempt(), "the copy carries the count")
	require.Zero(t, noteStart(t, d), "and begins without notes")
	require.Equal(t, 6, d.Attempt())
	require.NoError(t, d.Ack(t.Context()))
	empty(t, tr, c)
}

// startsOfOneMessage: others of the queue are not counted by it.
func (s *suite) startsOfOneMessage(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	skipCounting(t, tr)
	publish(t, tr, queue, "same", "same", "same")
	c := consumer(t, tr, queue)
	for range 3 {
		d := one(t, c)
		require.Zero(t, noteStart(t, d))
		require.Equal(t, 1, d.Attempt())
		require.NoError(t, d.Ack(t.Context()))
	}
	empty(t, tr, c)
}

func skipCounting(t *testing.T, tr transport.Transport) {
	t.Helper()
	if tr.Capabilities().CountsAttempts {
		t.Skip("the broker counts deliveries that end in a crash")
	}
}
