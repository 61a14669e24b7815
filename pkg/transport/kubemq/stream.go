package kubemq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// minGetWait is what servers raise every shorter wait to.
	minGetWait = time.Second
	// answerMargin is how much later than it should an answer may come: a Get can
	// stand behind somebody else's on the server's internal connections.
	answerMargin = 20 * time.Second
	// reasonTime is how long the reason may take for which a Send was refused.
	reasonTime = time.Second
)

// errSilent: the server owes an answer for longer than it may.
var errSilent = errors.New("kubemq: the broker does not answer")

// stream is one downstream stream. The server handles its requests in order.
// Answers carry the id of their request; success of a settlement has none.
type stream struct {
	client *Client
	rpc    pb.Kubemq_QueuesDownstreamClient
	cancel context.CancelCauseFunc
	// done is closed when no answer can come any more; err is set before.
	done chan struct{}
	err  error

	// sending serializes Send, which gRPC requires.
	sending sync.Mutex

	mu       sync.Mutex
	lastID   uint64
	expected map[string]func(*pb.QueuesDownstreamResponse)
	// queue holds the settlements that are not sent yet; flushing tells whether a
	// goroutine is at it (settle.go).
	queue    []*settlement
	flushing bool
	ended    bool
	flushes  sync.WaitGroup

	// gets counts the Gets that were sent; waiting tells that one is unanswered,
	// open how many transactions are. They belong to streams.mu.
	gets    int
	waiting bool
	open    int
}

// openStream opens a stream that outlives ctx; ctx only bounds the opening, which
// waits for the connection: each of a transport's comes back in its own time.
func openStream(ctx context.Context, client *Client) (*stream, error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	rpc, err := client.rpc.QueuesDownstream(client.call(life), grpc.WaitForReady(true))
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		cancel(err)
		return nil, client.failed(err)
	}
	s := newStream(client, rpc, cancel)
	go s.read(life)
	return s, nil
}

func newStream(client *Client, rpc pb.Kubemq_QueuesDownstreamClient, cancel context.CancelCauseFunc) *stream {
	return &stream{
		client: client, rpc: rpc, cancel: cancel, done: make(chan struct{}),
		expected: make(map[string]func(*pb.QueuesDownstreamResponse)),
	}
}

// read hands answers to those who expect them until the stream ends.
func (s *stream) read(life context.Context) {
	defer close(s.done)
	for {
		answer, err := s.rpc.Recv()
		if err != nil {
			// Our own reason to end it says more than gRPC's "canceled".
			if cause := context.Cause(life); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			s.err = s.client.failed(err)
			s.cancel(s.err)
			return
		}
		s.mu.Lock()
		receive := s.expected[answer.RefRequestId]
		delete(s.expected, answer.RefRequestId)
		s.mu.Unlock()
		if receive != nil {
			receive(answer)
		}
	}
}

// send gives request an id and sends it; receive is called from the reader when
// an answer comes.
func (s *stream) send(request *pb.QueuesDownstreamRequest, receive func(*pb.QueuesDownstreamResponse)) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	s.lastID++
	request.RequestID = strconv.FormatUint(s.lastID, 10)
	s.expected[request.RequestID] = receive
	s.mu.Unlock()
	request.ClientID = s.client.id
	// A peer that reads nothing stops Send when the buffers in between are full.
	impatient := time.AfterFunc(sendTimeout, func() { s.cancel(fmt.Errorf("kubemq: send on a stream: %w", errSilent)) })
	err := s.rpc.Send(request)
	impatient.Stop()
	if err != nil {
		return s.endAfter(err)
	}
	return nil
}

// endAfter ends the stream after a Send failed, and returns why it ended.
//
// After io.EOF the reader has the reason, which says more. But it need not come:
// when a connection is cut just after the stream was opened, gRPC opens it again by
// itself, and a Send meanwhile gets io.EOF while the reader waits on the new one.
func (s *stream) endAfter(failure error) error {
	if errors.Is(failure, io.EOF) {
		timer := time.NewTimer(reasonTime)
		defer timer.Stop()
		select {
		case <-s.done:
		case <-timer.C:
		}
	}
	s.cancel(fmt.Errorf("kubemq: send on a stream: %w", failure))
	<-s.done
	return s.err
}

// forget ends the expectation of an answer that only a failure would have got.
func (s *stream) forget(request *pb.QueuesDownstreamRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expected, request.RequestID)
}

// getting is a Get that was sent.
type getting struct {
	stream   *stream
	channel  string
	wait     time.Duration
	answered chan *pb.QueuesDownstreamResponse
}

// startGet asks for up to items messages.
func (s *stream) startGet(channel string, items int, wait time.Duration) (*getting, error) {
	return s.ask(&pb.QueuesDownstreamRequest{
		Channel: channel, MaxItems: int32(items), WaitTimeout: int32(wait / time.Millisecond),
	})
}

// ask sends a Get.
func (s *stream) ask(get *pb.QueuesDownstreamRequest) (*getting, error) {
	get.RequestTypeData = pb.QueuesDownstreamRequestType_Get
	g := &getting{
		stream: s, channel: get.Channel, wait: time.Duration(get.WaitTimeout) * time.Millisecond,
		answered: make(chan *pb.QueuesDownstreamResponse, 1),
	}
	err := s.send(get, func(answer *pb.QueuesDownstreamResponse) { g.answered <- answer })
	return g, err
}

// answer waits for it. A server that owes it for too long is given up with the
// whole stream, because messages may come with the answer.
func (g *getting) answer() (*pb.QueuesDownstreamResponse, error) {
	defer time.AfterFunc(g.wait+suspectAfter, g.stream.client.suspect).Stop()
	timer := time.NewTimer(g.wait + answerMargin)
	defer timer.Stop()
	select {
	case answer := <-g.answered:
		if answer.IsError {
			return nil, newServerError(answer.Error)
		}
		return answer, nil
	case <-timer.C:
		g.stream.cancel(fmt.Errorf("kubemq: get from channel %q: %w", g.channel, errSilent))
		<-g.stream.done
	case <-g.stream.done:
	}
	return nil, g.stream.err
}

// get asks for up to items messages and waits for the answer.
func (s *stream) get(channel string, items int, wait time.Duration) (*pb.QueuesDownstreamResponse, error) {
	g, err := s.startGet(channel, items, wait)
	if err != nil {
		return nil, err
	}
	return g.answer()
}

// closeTransaction ends a transaction; there is no answer. Requests that are sent
// later find it closed.
func (s *stream) closeTransaction(id string) {
	request := &pb.QueuesDownstreamRequest{
		RequestTypeData: pb.QueuesDownstreamRequestType_CloseByClient, RefTransactionId: id,
	}
	if s.send(request, func(*pb.QueuesDownstreamResponse) {}) == nil {
		s.forget(request)
	}
}

// broken tells whether the stream has ended.
func (s *stream) broken() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// close proves what was settled, ends the stream and waits for its goroutines.
// The server hands everything else that it held back to the queue.
func (s *stream) close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	impatient := time.AfterFunc(barrierTimeout, func() { s.cancel(errSilent) })
	s.flushes.Wait()
	impatient.Stop()
	s.cancel(transport.ErrStopped)
	<-s.done
}
