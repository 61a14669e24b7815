package gocelery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	upstream "github.com/gocelery/gocelery"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// defaultQueue is Celery's and gocelery's.
	defaultQueue = "celery"
	// defaultTimeout bounds a call of gocelery's interfaces, which have no context.
	defaultTimeout = 10 * time.Second
)

// ErrConsume is what Broker.GetTaskMessage returns.
var ErrConsume = errors.New("gocelery: taking messages is the worker's job; register the task with it instead of starting gocelery's worker")

// Broker is gocelery's CeleryBroker over a transport, for its client.
type Broker struct {
	// Publisher sends the messages. It must have been started.
	Publisher transport.Publisher
	// Queue is where they go; "" is "celery".
	Queue string
	// Timeout bounds the wait for the broker's confirmation; 0 is 10 s.
	Timeout time.Duration
}

var _ upstream.CeleryBroker = (*Broker)(nil)

// SendCeleryMessage publishes a message and returns nil once the broker has
// confirmed it.
func (b *Broker) SendCeleryMessage(message *upstream.CeleryMessage) error {
	outgoing, err := b.outgoing(message)
	if err != nil {
		return fmt.Errorf("gocelery: can't encode the message: %w", err)
	}
	ctx, cancel := withTimeout(b.Timeout)
	defer cancel()
	if err := b.Publisher.Publish(ctx, b.queue(), outgoing); err != nil {
		return fmt.Errorf("gocelery: can't publish to queue %q: %w", b.queue(), err)
	}
	return nil
}

// GetTaskMessage returns ErrConsume at once: a message that gocelery took could
// not be settled, so it would be lost in a crash.
func (b *Broker) GetTaskMessage() (*upstream.TaskMessage, error) {
	return nil, ErrConsume
}

func (b *Broker) queue() string {
	if b.Queue == "" {
		return defaultQueue
	}
	return b.Queue
}

// outgoing writes the envelope as Celery does. gocelery's own names its exchange
// and queue "celery" whatever the queue is, which would send a retry there, and
// makes up a correlation_id and a reply_to that nobody listens to.
func (b *Broker) outgoing(message *upstream.CeleryMessage) (transport.Outgoing, error) {
	body, err := base64.StdEncoding.DecodeString(message.Body)
	if err != nil {
		return transport.Outgoing{}, err
	}
	var task struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &task); err != nil {
		return transport.Outgoing{}, err
	}
	envelope := protocol.Envelope{
		Body:            body,
		ContentType:     message.ContentType,
		ContentEncoding: message.ContentEncoding,
		Headers:         message.Headers,
		Properties: protocol.Properties{
			CorrelationID: task.ID,
			DeliveryMode:  message.Properties.DeliveryMode,
			Priority:      message.Properties.DeliveryInfo.Priority,
			DeliveryInfo:  protocol.DeliveryInfo{RoutingKey: b.queue()},
			DeliveryTag:   message.Properties.DeliveryTag,
		},
	}
	outgoing := transport.Outgoing{Priority: envelope.Properties.Priority}
	if outgoing.Headers, err = envelope.HeadersJSON(); err != nil {
		return transport.Outgoing{}, err
	}
	outgoing.Body, err = envelope.Encode()
	return outgoing, err
}

func withTimeout(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return context.WithTimeout(context.Background(), timeout)
}
