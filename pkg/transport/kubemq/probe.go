package kubemq

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// probePrefix begins the name of a channel that is probed.
const probePrefix = "lovage.probe."

const (
	// promptly is how long an answer may take that the server did not make wait:
	// one that it did takes minGetWait at least, and a busy machine some time, too.
	promptly = minGetWait - 100*time.Millisecond
	// probeTime bounds a probe: a broker that goes away in its middle is noticed as one
	// that does not answer.
	probeTime = time.Minute
	// probeExpiry removes what a probe that died left behind, in seconds.
	probeExpiry = 60
	// probeTries is how often a server must seem slow: on a busy machine any may once,
	// and the strategy is for the life of the transport.
	probeTries = 3
)

// probe finds out, on a queue of its own, whether the server allows
// StrategyDirect: a Get for more than there is must be answered at once, must not
// take messages that come later, and must not hold up settlements while it waits.
// It takes milliseconds where all is well and some seconds where not. A server that
// is not what it seems gets StrategySingle, which is safe with any.
func probe(ctx context.Context, client *Client) (strategy Strategy, reason string, err error) {
	for range probeTries {
		strategy, reason, err = probeOnce(ctx, client)
		if err != nil || strategy == StrategyDirect {
			break
		}
	}
	return strategy, reason, err
}

func probeOnce(ctx context.Context, client *Client) (Strategy, string, error) {
	p := &prober{client: client, channel: probePrefix + rand.Text()}
	first, err := openStream(ctx, client)
	if err != nil {
		return "", "", err
	}
	defer first.close()
	second, err := openStream(ctx, client)
	if err != nil {
		return "", "", err
	}
	defer second.close()

	reason, err := p.run(ctx, first, second)
	switch {
	case err != nil:
		return "", "", err
	case reason != "":
		return StrategySingle, reason, nil
	}
	return StrategyDirect, "the server answers at once, leaves later messages alone and settles while a Get waits", nil
}

type prober struct {
	client  *Client
	channel string
}

// run returns why the server is not for StrategyDirect, "" if it is.
func (p *prober) run(ctx context.Context, first, second *stream) (reason string, err error) {
	if err := p.send(ctx); err != nil {
		return "", err
	}
	begun := time.Now()
	partial, err := first.get(p.channel, 2, minGetWait)
	if err != nil {
		return "", err
	}
	if took := time.Since(begun); len(partial.Messages) != 1 || took > promptly {
		return "a Get for more than there is waits", errors.Join(p.ackAll(ctx, first, partial))
	}
	if err := p.send(ctx); err != nil {
		return "", err
	}
	later, err := second.get(p.channel, 1, minGetWait)
	if err != nil {
		return "", err
	}
	if len(later.Messages) != 1 {
		return "an open transaction takes later messages", p.ackAll(ctx, first, partial)
	}
	if err := p.ackAll(ctx, second, later); err != nil {
		return "", err
	}
	return p.settleBehindGet(ctx, first, partial)
}

// settleBehindGet acks while a Get of the same stream waits.
func (p *prober) settleBehindGet(ctx context.Context, s *stream, held *pb.QueuesDownstreamResponse) (string, error) {
	// Nobody waits for its answer: there is no message, and the stream ends here.
	if _, err := s.startGet(p.channel, 1, minGetWait); err != nil {
		return "", err
	}
	begun := time.Now()
	if err := p.ackAll(ctx, s, held); err != nil {
		return "", err
	}
	if time.Since(begun) > promptly {
		return "settlements wait behind a Get", nil
	}
	return "", nil
}

func (p *prober) send(ctx context.Context) error {
	return p.client.Send(ctx, &pb.QueueMessage{
		Channel: p.channel, Metadata: "probe", Policy: &pb.QueueMessagePolicy{ExpirationSeconds: probeExpiry},
	})
}

func (p *prober) ackAll(ctx context.Context, s *stream, answer *pb.QueuesDownstreamResponse) error {
	one := newSettlement(pb.QueuesDownstreamRequestType_AckAll, answer.TransactionId)
	if !s.enqueue(one) {
		return transport.ErrStopped
	}
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
