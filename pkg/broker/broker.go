package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Broker is an embedded broker. It is started once and stopped once.
type Broker struct {
	config Config
	quit   chan struct{} // closed by Stop
	done   chan struct{} // closed when everything is taken down

	mu       sync.Mutex
	started  bool
	stopped  bool
	listener net.Listener
	web      *web
	queues   *queues
	err      error
}

// New checks the configuration. Nothing is opened before Start.
func New(config Config) (*Broker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Broker{config: config, quit: make(chan struct{}), done: make(chan struct{})}, nil
}

// Start opens the store, listens, and returns once clients can connect. ctx
// bounds the start only; the broker runs until Stop. It returns ErrStopped if the
// broker was started or stopped before, and wraps ErrFormat if the data directory
// is of another version, ErrDamaged if its files are not as they were written.
func (b *Broker) Start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.stopped {
		return ErrStopped
	}
	store, err := openStore(ctx, b.config)
	if err != nil {
		return err
	}
	return b.startOn(ctx, store)
}

// startOn is Start on an open store, which the broker closes.
func (b *Broker) startOn(ctx context.Context, store store) error {
	run, err := open(ctx, b.config, store)
	if err != nil {
		return errors.Join(err, store.close())
	}
	b.started = true
	b.listener, b.web, b.queues = run.listener, run.web, run.queues
	go b.supervise(run)
	return nil
}

// Addr is the address the broker listens on, nil before Start.
func (b *Broker) Addr() net.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listener == nil {
		return nil
	}
	return b.listener.Addr()
}

// HTTPAddr is the address of the HTTP side, nil before Start and without one.
func (b *Broker) HTTPAddr() net.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.web == nil {
		return nil
	}
	return b.web.listener.Addr()
}

// Stop ends all streams and calls with Unavailable, writes what was accepted and
// closes the store. It waits for that, may be called more than once and from any
// goroutine, and returns the error that ended the broker, if one did.
func (b *Broker) Stop() error {
	b.mu.Lock()
	started := b.started
	if !b.stopped {
		b.stopped = true
		close(b.quit)
		if !started {
			close(b.done)
		}
	}
	b.mu.Unlock()
	<-b.done
	return b.Err()
}

// Done is closed when the broker has ended: after Stop, or because its store or
// its listener failed.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err is what ended the broker: nil while it runs and after a clean Stop.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// supervise waits for the end and takes everything down.
func (b *Broker) supervise(run *running) {
	var cause error
	select {
	case <-b.quit:
	case cause = <-run.serving:
	case <-run.queues.journal.failed:
		// Nothing that is answered from now on could be promised.
		cause = run.queues.journal.failure()
	}
	err := errors.Join(cause, run.close())
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	close(b.done)
}

// running is everything that an open broker consists of.
type running struct {
	store    store
	queues   *queues
	server   *grpc.Server
	listener net.Listener
	web      *web       // nil without Config.HTTPListen
	serving  chan error // how serving ended, if not by close; capacity 2
	cancel   context.CancelFunc
	workers  sync.WaitGroup
}

// open listens only when everything stored is loaded, so that a client which gets
// a connection gets answers.
func open(ctx context.Context, config Config, store store) (*running, error) {
	queues, err := openQueues(config, store)
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("broker: listen on %s: %w", config.Listen, err)
	}
	r := &running{store: store, queues: queues, listener: listener, serving: make(chan error, 2)}
	service := &service{
		queues:   queues,
		events:   newEvents(),
		requests: newRequests(config),
		cache:    newRequestCache(),
		version:  config.Version,
		started:  time.Now(),
	}
	r.server = newServer(config, service)
	if r.web, err = listenWeb(ctx, config, service); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r.start(ctx)
	return r, nil
}

// start runs what close waits for.
func (r *running) start(ctx context.Context) {
	// The end of Start's context does not end the broker.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go r.queues.journal.run()
	r.workers.Go(func() { r.queues.keepTime(ctx) })
	r.workers.Go(func() {
		if err := r.server.Serve(r.listener); err != nil {
			r.serving <- fmt.Errorf("broker: serve: %w", err)
		}
	})
	if r.web != nil {
		r.workers.Go(func() {
			if err := r.web.serve(ctx); err != nil {
				r.serving <- fmt.Errorf("broker: serve HTTP: %w", err)
			}
		})
	}
}

// close ends the parts in the order of their dependence: handlers add to the
// journal, the journal writes to the store.
func (r *running) close() error {
	r.queues.stopping.Store(true)
	r.queues.quirks.stop()
	r.server.Stop()
	r.cancel() // ends the HTTP side too
	r.workers.Wait()
	r.queues.journal.close()
	if err := r.store.close(); err != nil {
		return fmt.Errorf("broker: close the store: %w", err)
	}
	return nil
}

// openStore opens the kind of store that config asks for.
func openStore(ctx context.Context, config Config) (store, error) {
	if config.DataDir == "" {
		return newMemoryStore(), nil
	}
	return openDiskStore(ctx, config)
}
