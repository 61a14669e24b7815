package rayserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	resultsrayserve "github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// Client sends tasks to one queue and reads their results. Its methods may be called
// from any goroutine, between Start and Stop.
type Client struct {
	config Config
	// sender sends tasks, as the adapter does: without metadata and tags, which a
	// transport adds. transport is for queries and progress.
	sender    *kubemq.Client
	transport *kubemq.Transport
	results   *resultskubemq.Backend
}

// NewClient checks config and prepares the connections; Start makes them.
func NewClient(config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Client{config: config}
	var err error
	if c.sender, err = kubemq.NewClient(config.Connection); err != nil {
		return nil, fmt.Errorf("rayserve: %w", err)
	}
	if c.transport, err = kubemq.New(config.Connection); err != nil {
		return nil, errors.Join(fmt.Errorf("rayserve: %w", err), c.sender.Close())
	}
	c.results, err = resultskubemq.New(resultskubemq.Config{
		Connection: config.Connection, Prefix: config.ResultPrefix, MaxExpires: config.ResultExpiry, Form: resultsrayserve.Form{},
		ExactIDs: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rayserve: %w", err), c.sender.Close(), c.transport.Stop())
	}
	return c, nil
}

// Start returns once the broker has answered; it tries until ctx ends. Stop belongs to a
// Start that failed, too.
func (c *Client) Start(ctx context.Context) error {
	if err := c.transport.Start(ctx); err != nil {
		return fmt.Errorf("rayserve: start: %w", err)
	}
	if err := c.results.Start(ctx); err != nil {
		return fmt.Errorf("rayserve: start: %w", err)
	}
	return nil
}

// Stop ends subscriptions and closes the connections. It is idempotent.
func (c *Client) Stop() error {
	return errors.Join(c.sender.Close(), c.transport.Stop(), c.results.Stop())
}

// Enqueue stores PENDING for a new task and sends it, and returns its id (enqueue_task).
// It returns once the broker has confirmed both.
//
// A value that JSON has no form for is a *protocol.EncodeError, and nothing is sent: its
// text says which one it is, `args[2].weights` or `kwargs["x"]`, its Go type, and what to
// do. Bytes are such a value; a time becomes ISO 8601, a decimal and a UUID their text.
// An error comes with the id where the task itself may have been sent, and wraps
// transport.ErrUnconfirmed then.
func (c *Client) Enqueue(ctx context.Context, name string, args []any, kwargs map[string]any) (id string, err error) {
	id = uuid.NewString()
	created := protocol.FormatTime(time.Now().UTC())
	body, err := wire.EncodeTask(wire.Task{ID: id, Name: name, Args: args, Kwargs: kwargs, CreatedAt: created})
	if err != nil {
		return "", fmt.Errorf("rayserve: enqueue task %q: %w", name, err)
	}
	// Before the task: a fast worker's result must not be followed by PENDING.
	pending := protocol.Meta{TaskID: id, Status: protocol.StatePending, Extra: map[string]any{wire.ExtraCreatedAt: created}}
	if err := c.results.Store(ctx, pending, results.StoreOptions{First: true}); err != nil {
		return "", fmt.Errorf("rayserve: enqueue task %q: %w", name, err)
	}
	err = c.sender.Send(ctx, &pb.QueueMessage{Channel: c.config.Queue, Body: body, Policy: &pb.QueueMessagePolicy{
		MaxReceiveCount: int32(c.config.MaxRetries), MaxReceiveQueue: c.config.FailedTaskQueue,
	}})
	if err == nil {
		return id, nil
	}
	err = fmt.Errorf("rayserve: enqueue task %q: %w", name, err)
	if errors.Is(err, transport.ErrUnconfirmed) {
		return id, err
	}
	// It was not sent, so it never ends. What can't be removed expires.
	_ = c.results.Forget(ctx, id)
	return "", err
}
