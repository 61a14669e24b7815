package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

func TestPendingRequestsAreForgotten(t *testing.T) {
	r := newRequests(Config{}.withDefaults())
	s := r.subscribe(channelKey{kindQueries, "ch"}, "")
	p, err := r.dispatch(query("ch", "x"))
	require.NoError(t, err)
	offered := <-s.requests
	s.taken(offered)
	require.Zero(t, s.waiting.Load())
	require.Equal(t, p.size, r.bytes)
	for range 2 { // the second one is dropped
		r.answer(&pb.Response{ReplyChannel: offered.request.ReplyChannel})
	}
	r.forget(p)
	require.Empty(t, r.pending)
	require.Zero(t, r.bytes)
	r.unsubscribe(s)
	require.Empty(t, r.exact)
	s = r.subscribe(channelKey{kindQueries, ">"}, "")
	r.unsubscribe(s)
	require.Empty(t, r.wild)
}

func TestPendingRequestsAreBounded(t *testing.T) {
	r := newRequests(Config{MaxWaiting: 1}.withDefaults())
	first, err := r.dispatch(query("ch", "x"))
	require.NoError(t, err)
	_, err = r.dispatch(query("ch", "x"))
	require.EqualError(t, err, "broker: too many unanswered requests (limit 1)")
	r.forget(first)
	_, err = r.dispatch(query("ch", "x"))
	require.NoError(t, err)

	r = newRequests(Config{}.withDefaults())
	large := string(make([]byte, maxRequestBytes/3))
	r.config.MaxMessageBytes = maxRequestBytes
	for range 2 {
		_, err = r.dispatch(query("ch", large))
		require.NoError(t, err)
	}
	_, err = r.dispatch(query("ch", large))
	require.EqualError(t, err, "broker: too many bytes of unanswered requests (limit 268435456)")
}

func TestARequestThatWouldEndTheRespondersStreamIsRefused(t *testing.T) {
	r := newRequests(Config{MaxMessageBytes: 64 << 10}.withDefaults())
	_, err := r.dispatch(query("ch", string(make([]byte, 64<<10))))
	require.ErrorIs(t, err, errPayloadTooBig)
}

func TestABusyResponderRefuses(t *testing.T) {
	r := newRequests(Config{}.withDefaults())
	r.subscribe(channelKey{kindQueries, "ch"}, "")
	for range maxResponderRequests {
		_, err := r.dispatch(query("ch", "x"))
		require.NoError(t, err)
	}
	_, err := r.dispatch(query("ch", "x"))
	require.EqualError(t, err, "broker: too many requests that wait for a responder (limit 1024)")
	require.Len(t, r.pending, maxResponderRequests)

	other := r.subscribe(channelKey{kindQueries, "ch"}, "")
	for range 2 { // one has room
		_, err = r.dispatch(query("ch", string(make([]byte, maxResponderBytes*2/5))))
		require.NoError(t, err)
	}
	_, err = r.dispatch(query("ch", string(make([]byte, maxResponderBytes*2/5))))
	require.Error(t, err)
	require.Len(t, other.requests, 2)
}

// TestAGroupSharesByLoad: the member with less to do gets the next request.
func TestAGroupSharesByLoad(t *testing.T) {
	r := newRequests(Config{}.withDefaults())
	a, b := r.subscribe(channelKey{kindCommands, "ch"}, "g"), r.subscribe(channelKey{kindCommands, "ch"}, "g")
	for range 10 {
		_, err := r.dispatch(command("x"))
		require.NoError(t, err)
	}
	require.Len(t, a.requests, 5)
	require.Len(t, b.requests, 5)
}

// slowResponder is a SubscribeToRequests stream whose client reads when the test
// does.
type slowResponder struct {
	grpc.ServerStream
	context func() context.Context
	sent    chan *pb.Request
}

func (s *slowResponder) Context() context.Context     { return s.context() }
func (s *slowResponder) SendHeader(metadata.MD) error { return nil }
func (s *slowResponder) Send(r *pb.Request) error {
	s.sent <- r
	return nil
}

func TestARequestThatTimedOutIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{requests: newRequests(Config{}.withDefaults())}
		ctx, cancel := context.WithCancel(t.Context())
		stream := &slowResponder{context: func() context.Context { return ctx }, sent: make(chan *pb.Request)}
		ended := make(chan error, 1)
		go func() {
			ended <- s.SubscribeToRequests(&pb.Subscribe{SubscribeTypeData: pb.Subscribe_Commands, ClientID: "c", Channel: "ch"}, stream)
		}()
		synctest.Wait()
		start := func(body string, timeout int32) {
			r := command(body)
			r.Timeout = timeout
			_, err := s.requests.dispatch(r)
			require.NoError(t, err)
			synctest.Wait()
		}
		start("being sent", 1000)
		start("too late", 1000)
		start("in time", 10_000)
		pass(2 * time.Second)
		require.Equal(t, "being sent", string((<-stream.sent).Body))
		require.Equal(t, "in time", string((<-stream.sent).Body))
		cancel()
		require.Error(t, <-ended)
	})
}
