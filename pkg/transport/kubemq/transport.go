package kubemq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/pkg/transport"
)

// overhead is what a message adds to its body at most, as far as we put it there:
// names, tags and the usual headers.
const overhead = 16 << 10

// Transport is a connection to one broker. It implements transport.Transport.
//
// It uses three connections, whatever the number of queues, so that a large
// message on one does not hold up the others: one to publish, one to consume, one
// for events and pings.
type Transport struct {
	config                      Config
	maxReceiveChannel           string
	publisher, consumer, events *Client
	link                        *link
	// traits are of the strategy in use. Start writes it.
	traits traits

	maxDelaySeconds atomic.Int64
	maxExpiry       atomic.Int32
	delayed         outstanding

	mu      sync.Mutex
	stopped bool
	// parts are the consumers and subscriptions that are open.
	parts map[io.Closer]struct{}
}

var _ transport.Transport = (*Transport)(nil)

// New checks config and prepares the connections; Start makes them.
func New(config Config) (*Transport, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	t := &Transport{config: config, traits: config.Strategy.traits(), parts: make(map[io.Closer]struct{})}
	if config.MaxReceiveQueue != "" {
		channel, err := ChannelName(config.MaxReceiveQueue)
		if err != nil {
			return nil, err
		}
		t.maxReceiveChannel = channel
	}
	for _, client := range []**Client{&t.publisher, &t.consumer, &t.events} {
		made, err := newClient(config)
		if err != nil {
			return nil, errors.Join(err, t.closeClients())
		}
		*client = made
	}
	t.link = newLink(t.ping, t.events.dropped, config.Retries, config.Hooks)
	for _, client := range t.clients() {
		client.lost, client.overdue, client.note = t.link.fail, t.link.doubt, t.note
	}
	t.maxDelaySeconds.Store(int64(config.MaxDelay / time.Second))
	t.maxExpiry.Store(math.MaxInt32)
	return t, nil
}

// Start returns once the broker has answered and it is known how to take messages
// from it. It keeps trying until ctx ends, unless the broker refuses the token or
// Config.StartRetries are used up (transport.ErrGaveUp).
func (t *Transport) Start(ctx context.Context) error {
	tries, err := connect(ctx, t.begin, t.config.StartRetries, t.config.Hooks)
	if err != nil {
		return err
	}
	if tries > 1 && t.config.Hooks.Restored != nil {
		t.config.Hooks.Restored()
	}
	return t.link.start(ctx)
}

// begin is one attempt to start.
func (t *Transport) begin(ctx context.Context) error {
	if err := t.ping(ctx); err != nil {
		return err
	}
	strategy, reason, err := t.chooseStrategy(ctx)
	if refused(err) {
		return finalError{fmt.Errorf("kubemq: start: %w", err)}
	}
	if err != nil {
		return err
	}
	t.traits = strategy.traits()
	t.note("strategy %s: %s", strategy, reason)
	return nil
}

// ping asks over each connection: one can be dead while the others work, and only
// who asks notices that.
func (t *Transport) ping(ctx context.Context) error {
	var all errgroup.Group
	for _, client := range t.clients() {
		all.Go(func() error { return client.ping(ctx) })
	}
	return all.Wait()
}

// chooseStrategy is what is configured, or what a probe finds.
func (t *Transport) chooseStrategy(ctx context.Context) (Strategy, string, error) {
	if t.config.Strategy != StrategyAuto {
		return t.config.Strategy, "configured", nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return probe(ctx, t.consumer)
}

// Consumer opens a consumer for a queue.
func (t *Transport) Consumer(queue string) (transport.Consumer, error) {
	channel, err := ChannelName(queue)
	if err != nil {
		return nil, err
	}
	if mapped(queue) != channel {
		t.note("queue %q is channel %q, as for kubemq-celery; other queues may share it", queue, channel)
	}
	c := &consumer{transport: t, queue: queue, channel: channel, closed: make(chan struct{})}
	if err := t.keep(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Capabilities is valid after Start.
func (t *Transport) Capabilities() transport.Capabilities {
	return transport.Capabilities{
		DelayTick:      time.Second,
		MaxDelay:       t.maxDelay(),
		CountsAttempts: t.config.CountsAttempts,
		MinWait:        t.traits.minWait,
		Fanout:         true,
		MaxMessage:     max(0, t.config.MaxSend-overhead),
	}
}

// Stop closes consumers and subscriptions that are still open, then the
// connections.
func (t *Transport) Stop() error {
	t.mu.Lock()
	t.stopped = true
	parts := t.parts
	t.parts = nil
	t.mu.Unlock()
	var problems []error
	for part := range parts {
		problems = append(problems, part.Close())
	}
	t.link.stop()
	return errors.Join(append(problems, t.closeClients())...)
}

// keep notes a part that Stop must close.
func (t *Transport) keep(part io.Closer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return fmt.Errorf("kubemq: %w", transport.ErrStopped)
	}
	t.parts[part] = struct{}{}
	return nil
}

// forget is called by a part that is closed.
func (t *Transport) forget(part io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.parts, part)
}

func (t *Transport) clients() []*Client {
	return []*Client{t.publisher, t.consumer, t.events}
}

func (t *Transport) closeClients() error {
	var problems []error
	for _, client := range t.clients() {
		if client != nil {
			problems = append(problems, client.Close())
		}
	}
	return errors.Join(problems...)
}

func (t *Transport) note(format string, args ...any) {
	if t.config.Hooks.Note != nil {
		t.config.Hooks.Note("kubemq: " + fmt.Sprintf(format, args...))
	}
}
