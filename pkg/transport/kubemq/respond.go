package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

var _ transport.Responder = (*Transport)(nil)

const (
	// groupPrefix and the channel are the group of all who respond with this package.
	groupPrefix = "lovage."
	// maxWaiting bounds the requests that wait for their turn: their bytes, and, as each
	// counts for waitingCost at least, their number.
	maxWaiting  = 16 << 20
	waitingCost = 16 << 10
)

// Respond answers the queries of a channel, which is mapped like a queue's name.
// Commands are left to others: the answer to a command has no body. Python's
// subscribers of the channel, which usually name no group, get each query as well,
// and the first answer counts. An answer beyond the size limits becomes one that says
// so, not executed.
func (t *Transport) Respond(
	ctx context.Context, channel string, limit int, answer transport.Answer,
) (transport.Subscription, error) {
	name, err := ChannelName(channel)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("kubemq: respond to channel %q: limit %d is less than 1", name, limit)
	}
	r := &responder{
		transport: t, channel: name, answer: answer,
		slots: make(chan struct{}, limit), waiting: semaphore.NewWeighted(maxWaiting),
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	return t.subscribe(ctx, ctx, &subscription{
		channel: name,
		open: func(ctx context.Context) (grpc.ClientStream, func() error, error) {
			stream, err := t.consumer.rpc.SubscribeToRequests(t.consumer.call(ctx), &pb.Subscribe{
				SubscribeTypeData: pb.Subscribe_Queries, ClientID: t.consumer.id, Channel: name, Group: groupPrefix + name,
			}, grpc.WaitForReady(true))
			return stream, func() error {
				request, err := stream.Recv()
				if err == nil {
					err = r.take(ctx, work, request)
				}
				return err
			}, err
		},
		finish: func() {
			stop(transport.ErrStopped)
			r.running.Wait()
		},
	})
}

// responder is who answers the requests of one channel.
type responder struct {
	transport *Transport
	channel   string
	answer    transport.Answer
	// slots are the answers that may run, waiting the bytes of what waits for one.
	slots   chan struct{}
	waiting *semaphore.Weighted
	running sync.WaitGroup
}

// take has a request answered, and returns when there is room for another one to wait.
// Requests are read though nobody can answer them yet, because their time is known
// from when they are read: left with the connection, those whose senders are long gone
// would be answered first, and a worker that is behind would stay so.
func (r *responder) take(ctx, work context.Context, request *pb.Request) error {
	deadline := time.Now().Add(time.Duration(request.Timeout) * time.Millisecond)
	cost := int64(min(max(request.Size(), waitingCost), maxWaiting))
	if err := r.waiting.Acquire(ctx, cost); err != nil {
		return err
	}
	r.running.Go(func() {
		ctx, cancel := context.WithDeadline(work, deadline)
		defer cancel()
		if r.turn(ctx, cost) {
			defer func() { <-r.slots }()
			r.serve(ctx, request, deadline)
		}
	})
	return nil
}

// turn waits for a slot. It is false when the time of the request is over.
func (r *responder) turn(ctx context.Context, cost int64) bool {
	defer r.waiting.Release(cost)
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were there
		<-r.slots
		return false
	}
	return true
}

// serve answers one request.
func (r *responder) serve(ctx context.Context, request *pb.Request, deadline time.Time) {
	body, ok := r.answer(ctx, request.Body)
	if !ok || !time.Now().Before(deadline) {
		return
	}
	response := &pb.Response{
		ClientID: r.transport.publisher.id, RequestID: request.RequestID, ReplyChannel: request.ReplyChannel,
		Body: body, Executed: true, Timestamp: time.Now().UnixNano(),
	}
	err := r.respond(ctx, response, deadline)
	if errors.Is(err, transport.ErrTooLarge) {
		response.Body, response.Executed = nil, false
		response.Error = fmt.Sprintf("answer of %d bytes: %s", len(body), err)
		err = r.respond(ctx, response, deadline)
	}
	if err != nil {
		r.transport.note("an answer to a request of channel %q could not be sent: %v", r.channel, err)
	}
}

// respond sends a response, again where the connection failed: the server takes the
// first one and drops the rest. What was done until the subscription was closed is
// still sent, once.
func (r *responder) respond(ctx context.Context, response *pb.Response, deadline time.Time) error {
	waits := newBackOff()
	for {
		err := r.transport.publisher.respond(context.WithoutCancel(ctx), response, deadline)
		if !Temporary(err) || pause.For(ctx, waits.NextBackOff()) != nil {
			return err
		}
	}
}

func (c *Client) respond(ctx context.Context, response *pb.Response, deadline time.Time) error {
	ctx, cancel := context.WithTimeout(c.call(ctx), min(time.Until(deadline), sendTimeout+onTheLine(len(response.Body))))
	defer cancel()
	if _, err := c.rpc.SendResponse(ctx, response, grpc.WaitForReady(true)); err != nil {
		return c.failed(err)
	}
	return nil
}
