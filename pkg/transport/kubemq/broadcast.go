package kubemq

import (
	"context"
	"crypto/rand"
	"fmt"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Broadcast hands body and tags to all who are subscribed. The channel is mapped
// like a queue's name.
func (t *Transport) Broadcast(ctx context.Context, channel string, body []byte, tags map[string]string) error {
	name, err := ChannelName(channel)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.events.call(ctx), sendTimeout)
	defer cancel()
	result, err := t.events.rpc.SendEvent(ctx, &pb.Event{
		EventID: rand.Text(), ClientID: t.events.id, Channel: name, Body: body, Tags: tags,
	}, grpc.WaitForReady(true))
	switch {
	case err != nil:
		return fmt.Errorf("kubemq: broadcast to channel %q: %w", name, t.events.failed(err))
	case !result.Sent:
		return fmt.Errorf("kubemq: broadcast to channel %q: %w", name, newServerError(result.Error))
	}
	return nil
}

// Subscribe calls receive for each broadcast until the subscription is closed. It
// returns when the server says that it has taken the subscription, or half a
// second after asking where it doesn't say.
func (t *Transport) Subscribe(ctx context.Context, channel string, receive func(body []byte)) (transport.Subscription, error) {
	name, err := ChannelName(channel)
	if err != nil {
		return nil, err
	}
	return t.subscribe(ctx, context.WithoutCancel(ctx), &subscription{
		channel: name,
		open: func(ctx context.Context) (grpc.ClientStream, func() error, error) {
			stream, err := t.events.rpc.SubscribeToEvents(t.events.call(ctx), &pb.Subscribe{
				SubscribeTypeData: pb.Subscribe_Events, ClientID: t.events.id, Channel: name,
			}, grpc.WaitForReady(true))
			return stream, func() error {
				event, err := stream.Recv()
				if err == nil {
					receive(event.Body)
				}
				return err
			}, err
		},
		finish: func() {},
	})
}
