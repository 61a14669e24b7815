package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// heartbeat is how often a transport asks whether the broker is there: an
	// event subscription alone would never notice.
	heartbeat        = 5 * time.Second
	heartbeatTimeout = 10 * time.Second
	// settling is how long after a loss the broker is asked first.
	settling = 50 * time.Millisecond
)

// link is whether the broker answers. Whoever notices that it doesn't calls fail;
// one goroutine then tries until it does, or has given up: it stays down then. All
// hooks about the connection are
// called from that goroutine, so they come in order.
type link struct {
	// ping asks once. dropped waits until the connection is gone that stood; false
	// when its context has ended first.
	ping    func(ctx context.Context) error
	dropped func(ctx context.Context) bool
	// retries is Config.Retries.
	retries int
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
	// gone is closed when the attempts are used up; gaveUp is set before.
	gone   chan struct{}
	gaveUp error
	// suspect has a value when the connection should be checked.
	suspect chan struct{}
}

func newLink(
	ping func(context.Context) error, dropped func(context.Context) bool, retries int, hooks transport.Hooks,
) *link {
	l := &link{
		ping: ping, dropped: dropped, retries: retries, hooks: hooks,
		suspect: make(chan struct{}, 1), up: make(chan struct{}), down: make(chan struct{}), broken: make(chan error, 1),
		gone: make(chan struct{}),
	}
	close(l.down)
	return l
}

// finalError is a failure that another attempt won't change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// connect calls try until it succeeds, ctx ends or the retries are used up (0 = for
// ever, negative = none), and says how often it has tried.
func connect(ctx context.Context, try func(context.Context) error, retries int, hooks transport.Hooks) (tries int, err error) {
	waits := newBackOff()
	reason := errSilent
	for tries = 1; ; tries++ {
		err := try(ctx)
		var final finalError
		switch {
		case err == nil, errors.Is(err, transport.ErrStopped):
			return tries, err
		case errors.As(err, &final):
			return tries, final.error
		case ctx.Err() == nil && (retries < 0 || retries > 0 && tries > retries):
			return tries, fmt.Errorf("kubemq: connect: %w after %d attempts: %w", transport.ErrGaveUp, tries, err)
		case ctx.Err() == nil:
			reason = err
			wait := waits.NextBackOff()
			if hooks.Retrying != nil {
				hooks.Retrying(err, tries, wait)
			}
			err = pause.For(ctx, wait)
		}
		if err != nil {
			return tries, fmt.Errorf("kubemq: connect: %w: %w", context.Cause(ctx), reason)
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
			l.doubt()
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

// doubt has the connection checked soon.
func (l *link) doubt() {
	select {
	case l.suspect <- struct{}{}:
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
			if !l.mend(ctx, err) {
				return
			}
		}
	}
}

// mend tries until the broker answers again. It is false when it was told to stop
// or has given up.
func (l *link) mend(ctx context.Context, lost error) bool {
	if l.hooks.Lost != nil {
		l.hooks.Lost(lost)
	}
	var err error
	if l.retries < 0 {
		err = fmt.Errorf("kubemq: connect: %w: retrying is off: %w", transport.ErrGaveUp, lost)
	} else if err = pause.For(ctx, settling); err == nil {
		// A broker that stops closes one connection after the other: before the pause
		// another might still work.
		_, err = connect(ctx, l.ping, l.retries, l.hooks)
	}
	if errors.Is(err, transport.ErrGaveUp) {
		l.gaveUp = err
		close(l.gone)
		if l.hooks.GaveUp != nil {
			l.hooks.GaveUp(err)
		}
	}
	if err != nil {
		return false
	}
	if l.hooks.Restored != nil {
		l.hooks.Restored()
	}
	l.mu.Lock()
	l.rise()
	l.mu.Unlock()
	return true
}

// check asks once.
func (l *link) check(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := l.ping(asking); err != nil && ctx.Err() == nil {
		l.fail(err)
	}
}

// await waits until the broker answers. It fails when ctx ends, or with
// transport.ErrGaveUp.
func (l *link) await(ctx context.Context) error {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-l.gone:
		return l.gaveUp
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
