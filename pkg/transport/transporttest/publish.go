package transporttest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func (s *suite) roundTrip(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	body := "{\"body\": \"\u00fc\u4e16\", \"n\": 1.0}"
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{
		Body: []byte(body), Headers: []byte(`{"task":"t","id":"1"}`), Priority: 9,
	}))
	c := consumer(t, tr, queue)
	d := one(t, c)
	require.Equal(t, body, string(d.Body()))
	require.Equal(t, queue, d.Queue())
	require.Equal(t, 1, d.Attempt())
	require.False(t, d.Redelivered())
	require.NoError(t, d.Ack(t.Context()))
	empty(t, tr, c)
}

func (s *suite) order(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	sent := make([]string, 20)
	for i := range sent {
		sent[i] = fmt.Sprint("m", i)
	}
	publish(t, tr, queue, sent...)
	c := consumer(t, tr, queue)
	got := make([]string, 0, len(sent))
	for range sent {
		d := one(t, c)
		got = append(got, string(d.Body()))
		require.NoError(t, d.Ack(t.Context()))
	}
	require.Equal(t, sent, got)
}

// attemptsTravel is T-K5: a copy takes the count along.
func (s *suite) attemptsTravel(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("x"), Attempts: 3}))
	d := one(t, consumer(t, tr, queue))
	require.Equal(t, 4, d.Attempt())
	require.True(t, d.Redelivered())
	require.NoError(t, d.Ack(t.Context()))
}

// bigMessage is larger than gRPC's and other defaults of 4 MiB.
func (s *suite) bigMessage(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	body := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	if most := tr.Capabilities().MaxMessage; most > 0 && most < len(body) {
		t.Skipf("the broker takes messages of up to %d bytes only", most)
	}
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: body}))
	d := one(t, consumer(t, tr, queue))
	require.True(t, bytes.Equal(body, d.Body()))
	require.NoError(t, d.Ack(t.Context()))
}

func (s *suite) tooLarge(t *testing.T) {
	t.Helper()
	tr := s.start(t)
	most := tr.Capabilities().MaxMessage
	if most == 0 || most > 64<<20 {
		t.Skipf("a message beyond the broker's limit of %d bytes is too much for a test", most)
	}
	err := tr.Publish(t.Context(), queueName(), transport.Outgoing{Body: make([]byte, most+1<<20)})
	require.ErrorIs(t, err, transport.ErrTooLarge)
}

// invalidNames is T-K9: a name that the broker can't have is refused before it does harm.
func (s *suite) invalidNames(t *testing.T) {
	t.Helper()
	tr := s.start(t)
	for _, name := range []string{"", "...", strings.Repeat("x", 256)} {
		require.ErrorIs(t, tr.Publish(t.Context(), name, transport.Outgoing{Body: []byte("x")}), transport.ErrName, "%q", name)
		_, err := tr.Consumer(name)
		require.ErrorIs(t, err, transport.ErrName, "%q", name)
	}
}

// expiredIsDropped waits for the expiry by a delayed message of another queue.
func (s *suite) expiredIsDropped(t *testing.T) {
	t.Helper()
	tr, queue, clock := s.start(t), queueName(), queueName()
	requireDelay(t, tr)
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("stale"), Expires: time.Second}))
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("fresh"), Expires: time.Hour}))
	require.NoError(t, tr.Publish(t.Context(), clock, transport.Outgoing{Body: []byte("now"), Delay: 2 * time.Second}))
	require.NoError(t, one(t, consumer(t, tr, clock)).Ack(t.Context()))
	d := one(t, consumer(t, tr, queue))
	require.Equal(t, "fresh", string(d.Body()))
	require.NoError(t, d.Ack(t.Context()))
}

func (s *suite) delayNeverEarly(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	requireDelay(t, tr)
	tick := tr.Capabilities().DelayTick
	const delay = 2 * time.Second
	begun := time.Now()
	require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte("x"), Delay: delay}))
	confirmed := time.Now()
	d := one(t, consumer(t, tr, queue))
	require.GreaterOrEqual(t, time.Since(begun), delay.Truncate(tick), "early")
	require.Less(t, time.Since(confirmed), delay+tick+time.Second, "late")
	require.Equal(t, 1, d.Attempt())
	require.NoError(t, d.Ack(t.Context()))
}

// delayBeyondMaximum is T-K7.
func (s *suite) delayBeyondMaximum(t *testing.T) {
	t.Helper()
	tr := s.start(t)
	requireDelay(t, tr)
	err := tr.Publish(t.Context(), queueName(), transport.Outgoing{
		Body: []byte("x"), Delay: tr.Capabilities().MaxDelay + time.Second,
	})
	require.ErrorIs(t, err, transport.ErrDelay)
}

// twoDelayedOfOneTask is T-K6: retries of one task look alike and must not replace each
// other.
func (s *suite) twoDelayedOfOneTask(t *testing.T) {
	t.Helper()
	tr, queue := s.start(t), queueName()
	requireDelay(t, tr)
	same := transport.Outgoing{Body: []byte("x"), Headers: []byte(`{"id":"same"}`), Delay: time.Second}
	require.NoError(t, tr.Publish(t.Context(), queue, same))
	require.NoError(t, tr.Publish(t.Context(), queue, same))
	drain(t, consumer(t, tr, queue), 2, 2)
}

func requireDelay(t *testing.T, tr transport.Transport) {
	t.Helper()
	if tr.Capabilities().DelayTick == 0 {
		t.Skip("the broker has no delay")
	}
}
