package transporttest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// asking is a transport that can ask and answer.
type asking interface {
	transport.Requester
	transport.Responder
}

// startAsking opens a transport for one test, where it can ask and answer.
func (s *suite) startAsking(t *testing.T) (transport.Transport, asking) {
	t.Helper()
	tr := s.start(t)
	both, ok := tr.(asking)
	if !ok {
		t.Skip("the transport has no requests")
	}
	return tr, both
}

// respond answers until the test is over.
func respond(t *testing.T, to transport.Responder, channel string, limit int, answer transport.Answer) {
	t.Helper()
	subscription, err := to.Respond(t.Context(), channel, limit, answer)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, subscription.Close()) })
}

// requests: each is answered once, by one of those who share the channel.
func (s *suite) requests(t *testing.T) {
	t.Helper()
	_, one := s.startAsking(t)
	_, other := s.startAsking(t)
	channel := queueName()
	var answered atomic.Int32
	for _, responder := range []asking{one, other} {
		respond(t, responder, channel, 4, func(_ context.Context, body []byte) ([]byte, bool) {
			answered.Add(1)
			return append([]byte("re: "), body...), true
		})
	}
	const requests = 20
	for i := range requests {
		body, err := one.Request(t.Context(), channel, []byte{'a' + byte(i)}, patience)
		require.NoError(t, err)
		require.Equal(t, "re: "+string(rune('a'+i)), string(body))
	}
	require.EqualValues(t, requests, answered.Load())
	// An answer may be empty.
	respond(t, one, channel+"empty", 1, func(context.Context, []byte) ([]byte, bool) { return nil, true })
	body, err := other.Request(t.Context(), channel+"empty", []byte("x"), patience)
	require.NoError(t, err)
	require.Empty(t, body)
}

// requestsUnanswered: who asks learns that nobody answered, and who was asked learns
// that nobody waits any more.
func (s *suite) requestsUnanswered(t *testing.T) {
	t.Helper()
	_, tr := s.startAsking(t)
	_, err := tr.Request(t.Context(), queueName(), []byte("x"), 100*time.Millisecond)
	require.ErrorIs(t, err, transport.ErrNoAnswer, "nobody is there")

	channel, causes := queueName(), make(chan error, 32)
	respond(t, tr, channel, 2, func(ctx context.Context, body []byte) ([]byte, bool) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return body, string(body) == "late"
	})
	for _, body := range []string{"never", "late"} {
		// On a busy machine its time may be over before anybody gets it.
		for timeout, cause := 200*time.Millisecond, error(nil); cause == nil; timeout *= 2 {
			_, err = tr.Request(t.Context(), channel, []byte(body), timeout)
			require.ErrorIs(t, err, transport.ErrNoAnswer, body)
			select {
			case cause = <-causes:
				require.ErrorIs(t, cause, context.DeadlineExceeded)
			case <-time.After(timeout):
				require.Less(t, timeout, patience)
			}
		}
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	asked := make(chan struct{})
	respond(t, tr, channel+"given-up", 1, func(ctx context.Context, _ []byte) ([]byte, bool) {
		close(asked)
		<-ctx.Done()
		return nil, false
	})
	go func() {
		<-asked
		cancel(context.Canceled)
	}()
	_, err = tr.Request(ctx, channel+"given-up", []byte("x"), patience)
	require.ErrorIs(t, err, context.Canceled)
}

// requestsWaitTheirTurn: no more are worked on than the limit, and the rest is not
// lost.
func (s *suite) requestsWaitTheirTurn(t *testing.T) {
	t.Helper()
	_, tr := s.startAsking(t)
	const limit, requests = 2, 8
	channel, errs := queueName(), make(chan error, requests+1)
	started, release := make(chan struct{}, requests+1), make(chan struct{})
	var running, most atomic.Int32
	respond(t, tr, channel, limit, func(_ context.Context, body []byte) ([]byte, bool) {
		now := running.Add(1)
		defer running.Add(-1)
		for known := most.Load(); now > known && !most.CompareAndSwap(known, now); known = most.Load() {
		}
		started <- struct{}{}
		<-release
		return body, true
	})
	ask := func(body string, timeout time.Duration) {
		_, err := tr.Request(t.Context(), channel, []byte(body), timeout)
		errs <- err
	}
	for range limit {
		go ask("x", patience)
	}
	for range limit {
		<-started
	}
	ask("one whose time passes while it waits", 200*time.Millisecond)
	require.ErrorIs(t, <-errs, transport.ErrNoAnswer)
	for range requests - limit {
		go ask("x", patience)
	}
	close(release)
	for range requests {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, limit, most.Load())
}

// respondingEnds: after the end of its context a subscription takes no more, and what
// runs is finished; Close ends that, too, and waits.
func (s *suite) respondingEnds(t *testing.T) {
	t.Helper()
	_, tr := s.startAsking(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	channel, asked, release := queueName(), make(chan string, 3), make(chan struct{})
	var finished atomic.Bool
	subscription, err := tr.Respond(ctx, channel, 3, func(ctx context.Context, body []byte) ([]byte, bool) {
		asked <- string(body)
		if string(body) == "finish" {
			<-release
			return body, ctx.Err() == nil
		}
		<-ctx.Done()
		if string(body) == "cancel" {
			finished.Store(true)
		}
		return []byte(context.Cause(ctx).Error()), true
	})
	require.NoError(t, err)
	answers := make(map[string]chan string)
	for _, body := range []string{"finish", "cancel"} {
		answers[body] = make(chan string, 1)
		go func() {
			answer, err := tr.Request(t.Context(), channel, []byte(body), patience)
			if err != nil {
				answer = []byte(err.Error())
			}
			answers[body] <- string(answer)
		}()
		require.Equal(t, body, <-asked)
	}
	stop()
	require.Eventually(t, func() bool {
		_, err := tr.Request(t.Context(), channel, []byte("late"), 50*time.Millisecond)
		select {
		case <-asked:
			return false
		default:
			return err != nil
		}
	}, patience, 10*time.Millisecond, "a request after the end is not taken")
	close(release)
	require.Equal(t, "finish", <-answers["finish"])
	require.NoError(t, subscription.Close())
	require.True(t, finished.Load(), "Close waits")
	require.Equal(t, transport.ErrStopped.Error(), <-answers["cancel"], "what it was told while it closed is sent")
	require.NoError(t, subscription.Close())
}

// answerTooLarge: who asks learns why there is no answer.
func (s *suite) answerTooLarge(t *testing.T) {
	t.Helper()
	tr, both := s.startAsking(t)
	most := tr.Capabilities().MaxMessage
	if most == 0 || most > 64<<20 {
		t.Skipf("an answer beyond the broker's limit of %d bytes is too much for a test", most)
	}
	channel := queueName()
	respond(t, both, channel, 1, func(context.Context, []byte) ([]byte, bool) { return make([]byte, most+1<<20), true })
	_, err := both.Request(t.Context(), channel, []byte("x"), patience)
	var refused *transport.NotExecutedError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Text, "bytes")
	_, err = both.Request(t.Context(), channel, make([]byte, most+1<<20), patience)
	require.ErrorIs(t, err, transport.ErrTooLarge)
}

// cutWhileResponding: who answers goes on by itself.
func (s *suite) cutWhileResponding(t *testing.T) {
	t.Helper()
	if s.cut == nil {
		t.Skip("the suite was given no way to cut connections")
	}
	_, tr := s.startAsking(t)
	channel := queueName()
	respond(t, tr, channel, 1, func(_ context.Context, body []byte) ([]byte, bool) { return body, true })
	for range 3 {
		s.cut(t)
	}
	var body []byte
	require.Eventually(t, func() bool {
		var err error
		body, err = tr.Request(t.Context(), channel, []byte("still there?"), time.Second)
		return err == nil
	}, patience, 10*time.Millisecond, "answers again")
	require.Equal(t, "still there?", string(body))
}
