package kubemq

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

var _ transport.Requester = (*Transport)(nil)

const (
	// longestRequest is what fits into a request's timeout field.
	longestRequest = math.MaxInt32 * time.Millisecond
	// requestMargin is how much later than it should the server may say that nobody
	// has answered.
	requestMargin = 2 * time.Second
)

// Request sends a query and waits for the first answer to it. The channel is mapped
// like a queue's name; timeout is rounded up to milliseconds, at most 24 days. What
// the server refuses is a *ServerError, an answer or a body beyond the size limits
// transport.ErrTooLarge.
func (t *Transport) Request(ctx context.Context, channel string, body []byte, timeout time.Duration) ([]byte, error) {
	name, err := ChannelName(channel)
	if err != nil {
		return nil, err
	}
	if timeout <= 0 || timeout > longestRequest {
		return nil, fmt.Errorf("kubemq: request to channel %q: timeout %s is not between 0 and %s", name, timeout, longestRequest)
	}
	answer, err := t.publisher.ask(ctx, &pb.Request{
		RequestID: rand.Text(), RequestTypeData: pb.Request_Query, ClientID: t.publisher.id, Channel: name, Body: body,
		Timeout: int32((timeout + time.Millisecond - 1) / time.Millisecond),
	}, timeout)
	if err == nil && !answer.Executed {
		err = &transport.NotExecutedError{Text: answer.Error}
	}
	if err != nil {
		return nil, fmt.Errorf("kubemq: request to channel %q: %w", name, err)
	}
	return answer.Body, nil
}

// ask sends a request and waits for the answer, or for the server to say that there
// is none.
func (c *Client) ask(ctx context.Context, request *pb.Request, timeout time.Duration) (*pb.Response, error) {
	// The call has no deadline of its own: one that passes counts as the silence of the
	// server (silence.go), and this one waits for somebody else.
	calling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	overdue := time.AfterFunc(timeout+requestMargin, func() {
		c.suspect()
		cancel(transport.ErrNoAnswer)
	})
	defer overdue.Stop()
	answer, err := c.rpc.SendRequest(c.call(calling), request, grpc.WaitForReady(true))
	switch {
	case err == nil:
		return answer, nil
	case calling.Err() != nil:
		return nil, context.Cause(calling)
	}
	return nil, c.failed(err)
}
