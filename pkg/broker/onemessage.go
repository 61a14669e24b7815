package broker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// defaultVisibility is the time that a receiver without one of its own gets.
	defaultVisibility = time.Minute
	// maxVisibility is the original's limit.
	maxVisibility = 12 * time.Hour
)

// Texts of StreamQueueMessage, word for word.
var (
	errCannotAck       = errors.New("Error 123: cannot ack the current message")
	errNothingToAck    = errors.New("Error 124: no active message to ack")
	errAckSequence     = errors.New("Error 125: ack sequence cannot be 0 or negative")
	errNothingToSend   = errors.New("Error 126: no active message to send")
	errVisibility      = errors.New("Error 127: invalid visibility time, cannot be negative or exceed setting in kubemq config")
	errReceiving       = errors.New("Error 128: subscription to queue is already active")
	errNotVisible      = errors.New("Error 129: current visibility timer expired")
	errCannotSend      = errors.New("Error 130: error during send message to queue")
	errNoModified      = errors.New("Error 131: invalid queue message")
	errStreamType      = errors.New("Error 132: invalid stream queue messages request type")
	errNothingToReject = errors.New("Error 137: no active message to reject")
	errNoNewMessage    = errors.New("Error 138: no new message in queue, wait time expired")
)

// oneMessage is one StreamQueueMessage stream: it receives one message, which
// must be settled before its visibility time is over, and ends with it. Only the
// goroutine that serves the stream uses what has no comment.
type oneMessage struct {
	queues   *queues
	stream   pb.Kubemq_StreamQueueMessageServer
	requests chan *pb.StreamQueueMessagesRequest // closed when the client sends no more
	ended    error                               // why, set before requests is closed

	workers  sync.WaitGroup
	claimed  chan *claim                    // capacity 1: the wait for a message is over
	received *pb.StreamQueueMessagesRequest // the ReceiveMessage, nil before it
	held     *delivery                      // the message, nil before and after
	timer    *time.Timer                    // of its visibility, nil before it
}

// StreamQueueMessage is KubeMQ's older receive API. The stream ends with EOF when
// its message is settled, when its visibility time is over (Error 129), or when
// none came (Error 138); other errors leave it open. A client that goes, or sends
// no more, without settling its message has rejected it: the only way in which
// the original counts a crash.
func (s *service) StreamQueueMessage(stream pb.Kubemq_StreamQueueMessageServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	o := &oneMessage{
		queues:   s.queues,
		stream:   stream,
		requests: make(chan *pb.StreamQueueMessagesRequest),
		claimed:  make(chan *claim, 1),
	}
	// Nobody can wait for this one: reading ends when the handler has returned.
	go o.read(ctx)
	err := o.serve(ctx)
	cancel()
	o.workers.Wait()
	o.leave()
	return err
}

func (o *oneMessage) read(ctx context.Context) {
	defer close(o.requests)
	for {
		request, err := o.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				o.ended = err
			}
			return
		}
		select {
		case o.requests <- request:
		case <-ctx.Done():
			return
		}
	}
}

// serve does one thing at a time, so an ack and the end of the visibility time
// can't both happen.
func (o *oneMessage) serve(ctx context.Context) error {
	for over := false; !over; {
		var visibility <-chan time.Time
		if o.timer != nil {
			visibility = o.timer.C
		}
		select {
		case request, more := <-o.requests:
			if !more {
				return o.ended
			}
			over = o.handle(ctx, request)
		case c := <-o.claimed:
			over = o.deliver(c)
		case <-visibility:
			o.expire(ctx)
			over = true
		case <-ctx.Done():
			return errStreamEnded
		}
	}
	return nil
}

// handle reports whether the stream is over.
func (o *oneMessage) handle(ctx context.Context, request *pb.StreamQueueMessagesRequest) (over bool) {
	var done *commit
	var err error
	switch request.StreamRequestTypeData {
	case pb.StreamRequestType_ReceiveMessage:
		if err = o.receive(ctx, request); err == nil {
			return false // answered when the wait is over
		}
	case pb.StreamRequestType_ModifyVisibility:
		err = o.modifyVisibility(request)
	case pb.StreamRequestType_AckMessage:
		done, err = o.ack(request)
	case pb.StreamRequestType_RejectMessage:
		done, err = o.reject(request)
	case pb.StreamRequestType_ResendMessage:
		done, err = o.resend(request)
	case pb.StreamRequestType_SendModifiedMessage:
		done, err = o.sendModified(ctx, request)
	default:
		err = errStreamType
	}
	if done != nil {
		o.held = nil
		if done.wait(ctx) != nil {
			err = errCannotAck
		}
	}
	return !o.answer(request, nil, err) || done != nil
}

// receive lines up for a message, without waiting for it.
func (o *oneMessage) receive(ctx context.Context, request *pb.StreamQueueMessagesRequest) error {
	if o.received != nil {
		return errReceiving
	}
	if err := validateConsumer(request.ClientID, request.Channel); err != nil {
		return err
	}
	if err := validateVisibility(request.VisibilitySeconds); err != nil {
		return err
	}
	if err := validateWaitSeconds(request.WaitTimeSeconds); err != nil {
		return err
	}
	wait := seconds(request.WaitTimeSeconds)
	if wait == 0 {
		wait = time.Second
	}
	c, err := o.queues.lineUp(ctx, want{queue: request.Channel, max: 1, wait: wait})
	if err != nil {
		return err
	}
	o.received = request
	o.workers.Go(func() {
		c.await(ctx)
		o.claimed <- c
	})
	return nil
}

func validateVisibility(visibility int32) error {
	if visibility < 0 || seconds(visibility) > maxVisibility {
		return errVisibility
	}
	return nil
}

func visibilityTime(visibility int32) time.Duration {
	if visibility == 0 {
		return defaultVisibility
	}
	return seconds(visibility)
}

// deliver answers the ReceiveMessage and reports whether the stream is over.
func (o *oneMessage) deliver(c *claim) (over bool) {
	messages, deliveries, err := o.queues.load(c.messages)
	if err != nil {
		o.queues.release(inFlight(c.messages))
		o.answer(o.received, nil, err)
		return true
	}
	if len(messages) == 0 {
		o.answer(o.received, nil, errNoNewMessage)
		return true
	}
	o.held = deliveries[0]
	o.timer = time.NewTimer(visibilityTime(o.received.VisibilitySeconds))
	return !o.answer(o.received, messages[0], nil)
}

// modifyVisibility starts the visibility time anew.
func (o *oneMessage) modifyVisibility(request *pb.StreamQueueMessagesRequest) error {
	if err := validateVisibility(request.VisibilitySeconds); err != nil {
		return err
	}
	if o.held == nil {
		return errNotVisible
	}
	o.timer.Reset(visibilityTime(request.VisibilitySeconds))
	return nil
}

// expire rejects the message because its time is over.
func (o *oneMessage) expire(ctx context.Context) {
	done := o.queues.abandon([]*delivery{o.held})
	o.held = nil
	if done.wait(ctx) == nil {
		o.answer(o.received, nil, errNotVisible)
	}
}

// answer reports whether the response was sent.
func (o *oneMessage) answer(request *pb.StreamQueueMessagesRequest, message *pb.QueueMessage, err error) bool {
	response := &pb.StreamQueueMessagesResponse{
		RequestID:             request.RequestID,
		StreamRequestTypeData: request.StreamRequestTypeData,
		Message:               message,
	}
	if err != nil {
		response.IsError, response.Error = true, err.Error()
	}
	return o.stream.Send(response) == nil
}

// leave gives up what the stream still has: a message that its client got counts
// as rejected, one on its way to it does not.
func (o *oneMessage) leave() {
	if o.timer != nil {
		o.timer.Stop()
	}
	select {
	case c := <-o.claimed:
		o.queues.release(inFlight(c.messages))
	default:
	}
	if o.held != nil {
		o.queues.abandon([]*delivery{o.held})
	}
}
