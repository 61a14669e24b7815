package rayserve

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/transport"
)

// Query runs a task at once on a worker of the queue and returns what its handler
// returned (query_task_sync). Nothing is stored and nothing is tried again. timeout is
// how long to wait, rounded up to milliseconds; 0 means Config.QueryTimeout.
//
// A value that JSON has no form for is refused as by Enqueue. A handler's error, a name
// that no handler has among them, is a *TaskError. No answer in time, also because nobody
// serves the queue, is transport.ErrNoAnswer, and an answer that can't be read a
// *wire.MalformedError (package pkg/protocol/rayserve).
func (c *Client) Query(ctx context.Context, name string, args []any, kwargs map[string]any, timeout time.Duration) (any, error) {
	body, err := wire.EncodeQuery(wire.Query{Name: name, Args: args, Kwargs: kwargs})
	if err != nil {
		return nil, fmt.Errorf("rayserve: query %q: %w", name, err)
	}
	if timeout == 0 {
		timeout = c.config.QueryTimeout
	}
	answer, err := c.transport.Request(ctx, c.config.Queue, body, timeout)
	if err != nil {
		return nil, fmt.Errorf("rayserve: query %q: %w", name, err)
	}
	response, err := wire.DecodeResponse(answer, protocol.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("rayserve: query %q: %w", name, err)
	}
	if response.Status != wire.StatusSuccess {
		return nil, fmt.Errorf("rayserve: query %q: %w", name, &TaskError{Text: response.Error})
	}
	return response.Result, nil
}

// Progress is how far a task has come.
type Progress = wire.Progress

// Progress calls receive for each report of progress from the queue's tasks, one at a
// time, until the subscription is closed or the client stopped. Reports are not stored:
// what is told while nobody is connected is lost. What is no report is passed over.
func (c *Client) Progress(ctx context.Context, receive func(Progress)) (transport.Subscription, error) {
	subscription, err := c.transport.Subscribe(ctx, c.config.Queue+wire.ProgressSuffix, func(body []byte) {
		if progress, err := wire.DecodeProgress(body, protocol.DefaultLimits()); err == nil {
			receive(progress)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("rayserve: progress: %w", err)
	}
	return subscription, nil
}
