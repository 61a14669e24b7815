package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// heartbeat is how often an idle transport asks whether the broker is there: an
	// event subscription alone would never notice.
	heartbeat        = 30 * time.Second
	heartbeatTimeout = 10 * time.Second
	// settling is how long after a loss the broker is asked first.
	settling = 50 * time.Millisecond
)

// link is whether the broker answers. Whoever notices that it doesn't calls fail;
// one goroutine then tries until it does. All hooks about the connection are
// called from that goroutine, so they come in order.
type link struct {
	// ping asks once. dropped waits until the connection is gone that stood; false
	// when its context has ended first.
	ping    func(ctx context.Context) error
	dropped func(ctx context.Context) bool
	hooks   transport.Hooks

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	// up is closed while the broker answers, down while it doesn't. Exactly one of
	// them is.
	up, down chan struct{}
	// broken passes the reason to the goroutine.
	broken chan error
	// suspect has a value when the connection should be checked.
	suspect chan struct{}
}

func newLink(ping func(context.Context) error, dropped func(context.Context) bool, hooks transport.Hooks) *link {
	l := &link{
		ping: ping, dropped: dropped, hooks: hooks, suspect: make(chan struct{}, 1), up: make(chan struct{}), down: make(chan struct{}), broken: make(chan error, 1),
	}
	close(l.down)
	return l
}

// connect calls ping until it succeeds or ctx ends.
func connect(ctx context.Context, ping func(ctx context.Context) error, hooks transport.Hooks) error {
	waits := newBackOff()
	reason := errSilent
	for attempt := 1; ; attempt++ {
		err := ping(ctx)
		if err == nil || errors.Is(err, transport.ErrStopped) {
			return err
		}
		if ctx.Err() == nil {
			reason = err
			wait := waits.NextBackOff()
			if hooks.Retrying != nil {
				hooks.Retrying(err, attempt, wait)
			}
			err = pause(ctx, wait)
		}
		if err != nil {
			return fmt.Errorf("kubemq: connect: %w: %w", context.Cause(ctx), reason)
		}
	}
}

// start says that the broker answers, and watches it from now on.
func (l *link) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.cancel != nil {
		cancel()
		return fmt.Errorf("kubemq: start: already started or %w", transport.ErrStopped)
	}
	l.cancel = cancel
	l.rise()
	l.running.Go(func() { l.watch(ctx) })
	l.running.Go(func() {
		for l.dropped(ctx) {
			select {
			case l.suspect <- struct{}{}:
			default:
			}
		}
	})
	return nil
}

// rise marks the link as up. The caller holds mu.
func (l *link) rise() {
	l.down = make(chan struct{})
	close(l.up)
}

// fail says that the connection is lost.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.up:
		l.up = make(chan struct{})
		close(l.down)
		l.broken <- err
	default:
	}
}

// watch owns the goroutine of the link.
func (l *link) watch(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.check(ctx)
		case <-l.suspect:
			l.check(ctx)
		case err := <-l.broken:
			if l.hooks.Lost != nil {
				l.hooks.Lost(err)
			}
			// A broker that stops closes one connection after the other: at this
			// moment another might still work.
			if pause(ctx, settling) != nil || connect(ctx, l.ping, l.hooks) != nil {
				return
			}
			if l.hooks.Restored != nil {
				l.hooks.Restored()
			}
			l.mu.Lock()
			l.rise()
			l.mu.Unlock()
		}
	}
}

// check asks once.
func (l *link) check(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := l.ping(asking); err != nil && ctx.Err() == nil {
		l.fail(err)
	}
}

// await waits until the broker answers.
func (l *link) await(ctx context.Context) error {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lost is closed when the connection that is up now is lost.
func (l *link) lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// stop ends the goroutine and waits for it.
func (l *link) stop() {
	l.mu.Lock()
	l.stopped = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	l.running.Wait()
}
