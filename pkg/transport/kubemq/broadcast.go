package kubemq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

// subscribeGrace is how long Subscribe waits for the server to say that it has
// taken the subscription. The 2023 server never says; a tenth of this was enough.
const subscribeGrace = 500 * time.Millisecond

// Broadcast hands body to all who are subscribed. The channel is mapped like a
// queue's name.
func (t *Transport) Broadcast(ctx context.Context, channel string, body []byte) error {
	name, err := ChannelName(channel)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.events.call(ctx), sendTimeout)
	defer cancel()
	result, err := t.events.rpc.SendEvent(ctx, &pb.Event{
		EventID: rand.Text(), ClientID: t.events.id, Channel: name, Body: body,
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
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &subscription{transport: t, channel: name, receive: receive, cancel: cancel, taken: make(chan struct{})}
	if err := t.keep(s); err != nil {
		cancel()
		return nil, err
	}
	s.running.Go(func() { s.run(life) })
	select {
	case <-s.taken:
		return s, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("kubemq: subscribe to channel %q: %w", name, context.Cause(ctx)), s.Close())
	}
}

// subscription is one subscriber. It comes back after every lost connection.
type subscription struct {
	transport *Transport
	channel   string
	receive   func(body []byte)
	cancel    context.CancelFunc
	running   sync.WaitGroup
	// taken is closed, once, when the first subscription stands.
	taken chan struct{}
	once  sync.Once
}

// Close ends the subscription and waits for a running callback.
func (s *subscription) Close() error {
	s.cancel()
	s.running.Wait()
	s.transport.forget(s)
	return nil
}

func (s *subscription) run(ctx context.Context) {
	waits := newBackOff()
	for s.transport.link.await(ctx) == nil {
		begun := time.Now()
		s.listen(ctx)
		if time.Since(begun) > waits.MaxInterval {
			waits.Reset()
		}
		if pause(ctx, waits.NextBackOff()) != nil {
			return
		}
	}
}

// listen subscribes and passes events on until the connection is lost.
func (s *subscription) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	// A connection that died in silence would keep the stream waiting for ever.
	lost := s.transport.link.lost()
	watching.Go(func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	})
	client := s.transport.events
	stream, err := client.rpc.SubscribeToEvents(client.call(ctx), &pb.Subscribe{
		SubscribeTypeData: pb.Subscribe_Events, ClientID: client.id, Channel: s.channel,
	}, grpc.WaitForReady(true))
	if err != nil {
		s.ended(ctx, err)
		return
	}
	watching.Go(func() { s.confirm(ctx, stream) })
	for {
		event, err := stream.Recv()
		if err != nil {
			s.ended(ctx, err)
			return
		}
		s.receive(event.Body)
	}
}

// confirm closes taken when the server has sent its headers, which it does when
// the subscription stands if at all.
func (s *subscription) confirm(ctx context.Context, stream grpc.ClientStream) {
	headers := make(chan bool, 1)
	go func() {
		_, err := stream.Header()
		headers <- err == nil
	}()
	timer := time.NewTimer(subscribeGrace)
	defer timer.Stop()
	select {
	case ok := <-headers:
		if ok && ctx.Err() == nil {
			s.once.Do(func() { close(s.taken) })
		}
		return
	case <-timer.C:
		s.once.Do(func() { close(s.taken) })
	case <-ctx.Done():
	}
	<-headers
}

// ended tells the link when a stream ended on its own.
func (s *subscription) ended(ctx context.Context, err error) {
	if ctx.Err() == nil && isDisconnect(err) {
		s.transport.link.fail(err)
	}
}
