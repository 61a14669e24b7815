package kubemq

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// requestServer is a fake for requests: it hands one to each subscriber.
type requestServer struct {
	fakeServer
	ask     func(ctx context.Context, request *pb.Request) (*pb.Response, error)
	respond func(response *pb.Response) error
	offer   chan *pb.Request
	groups  chan string
}

func (f *requestServer) SendRequest(ctx context.Context, request *pb.Request) (*pb.Response, error) {
	return f.ask(ctx, request)
}

func (f *requestServer) SendResponse(_ context.Context, response *pb.Response) (*pb.Empty, error) {
	return &pb.Empty{}, f.respond(response)
}

func (f *requestServer) SubscribeToRequests(request *pb.Subscribe, stream pb.Kubemq_SubscribeToRequestsServer) error {
	f.groups <- request.Group
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for {
		select {
		case offered := <-f.offer:
			if err := stream.Send(offered); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// TestRequestTimeouts: what fits into the field, and never 0, which servers refuse.
func TestRequestTimeouts(t *testing.T) {
	t.Parallel()
	asked := make(chan int32, 1)
	server := &requestServer{ask: func(_ context.Context, request *pb.Request) (*pb.Response, error) {
		asked <- request.Timeout
		return &pb.Response{Executed: true}, nil
	}}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	for _, timeout := range []time.Duration{0, -time.Second, longestRequest + 1} {
		_, err := tr.Request(t.Context(), "q", []byte("x"), timeout)
		require.ErrorContains(t, err, timeout.String())
		require.ErrorContains(t, err, longestRequest.String())
	}
	for timeout, want := range map[time.Duration]int32{1: 1, 1500 * time.Microsecond: 2, time.Second: 1000, longestRequest: 1<<31 - 1} {
		_, err := tr.Request(t.Context(), "q", []byte("x"), timeout)
		require.NoError(t, err)
		require.Equal(t, want, <-asked, timeout)
	}
	_, err := tr.Request(t.Context(), "..", []byte("x"), time.Second)
	require.ErrorIs(t, err, transport.ErrName)
}

// TestRequestFailures: what the other side says, as errors.
func TestRequestFailures(t *testing.T) {
	t.Parallel()
	var answer *pb.Response
	var failure error
	server := &requestServer{ask: func(context.Context, *pb.Request) (*pb.Response, error) { return answer, failure }}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	ask := func() error {
		_, err := tr.Request(t.Context(), "q", []byte("x"), time.Second)
		return err
	}
	answer = &pb.Response{Error: "out of memory", Body: []byte("x")}
	var refused *transport.NotExecutedError
	require.ErrorAs(t, ask(), &refused)
	require.Equal(t, "out of memory", refused.Text)
	answer, failure = nil, status.Error(codes.Internal, "Error 301: timeout for request message")
	require.ErrorIs(t, ask(), transport.ErrNoAnswer)
	failure = status.Error(codes.Internal, "Error 115: invalid request, cannot be empty")
	var server115 *ServerError
	require.ErrorAs(t, ask(), &server115)
	require.Equal(t, 115, server115.Code)
}

// TestWaitingForAnAnswerIsNotSilence: a call that was given up after a while must not
// have the connection hung up, on which others wait.
func TestWaitingForAnAnswerIsNotSilence(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := &requestServer{ask: func(ctx context.Context, _ *pb.Request) (*pb.Response, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &pb.Response{Executed: true}, nil
	}}
	client, err := NewClient(impatient(serveFake(t, server), transport.Hooks{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	patient := make(chan error, 1)
	go func() {
		_, err := client.ask(t.Context(), &pb.Request{}, patience)
		patient <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	_, err = client.ask(ctx, &pb.Request{}, patience)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release)
	require.NoError(t, <-patient)
}

// TestServerThatForgetsARequest: no server is waited for much longer than was asked.
func TestServerThatForgetsARequest(t *testing.T) {
	t.Parallel()
	server := &requestServer{ask: func(ctx context.Context, _ *pb.Request) (*pb.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	_, err := tr.Request(t.Context(), "q", []byte("x"), time.Millisecond)
	require.ErrorIs(t, err, transport.ErrNoAnswer)
}

// TestAnswerIsSentAgain: the connection failed while an answer was on its way.
func TestAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	sent := make(chan *pb.Response, 1)
	server := &requestServer{
		offer: make(chan *pb.Request), groups: make(chan string, 9),
		respond: func(response *pb.Response) error {
			if tries.Add(1) < 3 {
				return status.Error(codes.Unavailable, "going away")
			}
			sent <- response
			return nil
		},
	}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	subscription, err := tr.Respond(t.Context(), "a/b", 1, func(_ context.Context, body []byte) ([]byte, bool) {
		return body, true
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, subscription.Close()) }()
	require.Equal(t, "lovage.a.b", <-server.groups)
	server.offer <- &pb.Request{RequestID: "id", ReplyChannel: "reply", Body: []byte("x"), Timeout: 60_000}
	response := <-sent
	require.Equal(t, "id", response.RequestID)
	require.Equal(t, "reply", response.ReplyChannel)
	require.True(t, response.Executed)
	require.NotEmpty(t, response.ClientID)

	_, err = tr.Respond(t.Context(), "a/b", 0, nil)
	require.ErrorContains(t, err, "limit 0")
	_, err = tr.Respond(t.Context(), "..", 1, nil)
	require.ErrorIs(t, err, transport.ErrName)
}

// TestAnswerTooLargeForTheServer: its limit may be lower than ours.
func TestAnswerTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	sent := make(chan *pb.Response, 1)
	server := &requestServer{
		offer: make(chan *pb.Request), groups: make(chan string, 9),
		respond: func(response *pb.Response) error {
			if response.Executed {
				return status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5000 vs. 4000)")
			}
			sent <- response
			return nil
		},
	}
	tr := started(t, Config{Address: serveFake(t, server), Strategy: StrategyDirect})
	subscription, err := tr.Respond(t.Context(), "q", 1, func(context.Context, []byte) ([]byte, bool) {
		return make([]byte, 5000), true
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, subscription.Close()) }()
	server.offer <- &pb.Request{RequestID: "id", ReplyChannel: "reply", Timeout: 60_000}
	response := <-sent
	require.Empty(t, response.Body)
	require.Contains(t, response.Error, "answer of 5000 bytes")
	require.Contains(t, response.Error, "4000")
}

// TestWaitingRequestsAreBounded: beyond the bound no more are read, until one has its
// turn or gives up; and one that gave up is not worked on.
func TestWaitingRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ size, fit int }{
		"bytes":  {maxWaiting/2 + 1, 1},
		"number": {0, maxWaiting / waitingCost},
		"huge":   {maxWaiting + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &responder{slots: make(chan struct{}, 1), waiting: semaphore.NewWeighted(maxWaiting)}
				answered := 0
				r.answer = func(context.Context, []byte) ([]byte, bool) {
					answered++
					return nil, false
				}
				body := make([]byte, c.size)
				r.slots <- struct{}{} // the only one is taken
				begun := time.Now()
				for i := range c.fit {
					timeout := int32(1000 * min(i+1, 2))
					require.NoError(t, r.take(t.Context(), t.Context(), &pb.Request{Body: body, Timeout: timeout}))
				}
				require.Zero(t, time.Since(begun))
				require.NoError(t, r.take(t.Context(), t.Context(), &pb.Request{Body: body, Timeout: 5000}))
				require.Equal(t, time.Second, time.Since(begun), "when the first gave up")
				<-time.After(time.Second + time.Millisecond) // all but the last have
				<-r.slots
				r.running.Wait()
				require.Equal(t, 1, answered)
				require.Empty(t, r.slots)
				require.True(t, r.waiting.TryAcquire(maxWaiting), "all is given back")
			})
		})
	}
}

// TestEventsHaveTags: they are for subscribers without this module.
func TestEventsHaveTags(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr()})
	stream, err := tr.consumer.rpc.SubscribeToEvents(t.Context(), &pb.Subscribe{
		SubscribeTypeData: pb.Subscribe_Events, ClientID: "other", Channel: "q.progress",
	})
	require.NoError(t, err)
	_, err = stream.Header()
	require.NoError(t, err)
	tags := map[string]string{"task_id": "1", "pct": "50"}
	require.NoError(t, tr.Broadcast(t.Context(), "q.progress", []byte("half"), tags))
	event, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, "half", string(event.Body))
	require.Equal(t, tags, event.Tags)
}
