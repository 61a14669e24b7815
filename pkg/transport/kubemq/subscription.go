package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

// subscribeGrace is how long to wait for the server to say that it has taken a
// subscription. The 2023 server never says; a tenth of this was enough.
const subscribeGrace = 500 * time.Millisecond

// subscription is one subscriber, of events or of requests. It comes back after
// every lost connection.
type subscription struct {
	channel string
	// open subscribes; next then waits for one message and hands it over.
	open func(ctx context.Context) (stream grpc.ClientStream, next func() error, err error)
	// finish ends what came of messages and waits for it, after the last message.
	finish func()

	transport *Transport
	cancel    context.CancelFunc
	running   sync.WaitGroup
	// taken is closed, once, when the first subscription stands.
	taken chan struct{}
	once  sync.Once
}

// subscribe starts s, which lasts until it is closed or life ends. It returns when the
// server says that it has taken the subscription, or half a second after asking where
// it doesn't say.
func (t *Transport) subscribe(ctx, life context.Context, s *subscription) (transport.Subscription, error) {
	s.transport, s.taken = t, make(chan struct{})
	life, s.cancel = context.WithCancel(life)
	if err := t.keep(s); err != nil {
		s.cancel()
		return nil, err
	}
	s.running.Go(func() { s.run(life) })
	select {
	case <-s.taken:
		return s, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("kubemq: subscribe to channel %q: %w", s.channel, context.Cause(ctx)), s.Close())
	}
}

// Close ends the subscription and waits for running callbacks.
func (s *subscription) Close() error {
	s.cancel()
	s.running.Wait()
	s.finish()
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
		if pause.For(ctx, waits.NextBackOff()) != nil {
			return
		}
	}
}

// listen subscribes and passes messages on until the connection is lost.
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
	stream, next, err := s.open(ctx)
	if err == nil {
		watching.Go(func() { s.confirm(ctx, stream) })
	}
	for err == nil {
		err = next()
	}
	if ctx.Err() == nil && isDisconnect(err) {
		s.transport.link.fail(err)
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
