// Package rayserve stores the results of tasks from KubeMQ's Ray Serve adapter, where
// its producers look for them (docs/protocol.md §24.2).
//
// A finished task is never run again because its result could not be stored: inference
// is dear. A final state that can't be stored is kept in memory, and is tried again until
// it can.
package rayserve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport"
	connection "github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// The adapter's defaults and limits: of its result_channel_prefix and its
// result_expiry_seconds.
const (
	DefaultPrefix = "rayserve-result-"
	DefaultExpiry = time.Hour
	MaxExpiry     = 24 * time.Hour
)

// Config describes a backend.
type Config struct {
	// Connection says how to reach the broker.
	Connection connection.Config
	// Prefix comes before the task id in the queue's name (result_channel_prefix); empty
	// means DefaultPrefix.
	Prefix string
	// Expiry is how long a result stays readable (result_expiry_seconds), from a second to
	// MaxExpiry; 0 means DefaultExpiry. It is lowered when the server refuses it.
	Expiry time.Duration
	// MaxResult is the largest record in bytes, with 512 for the message around it, at
	// least 8 KiB; 0 means DefaultMaxResult.
	MaxResult int
	// Hooks are told what happens to results.
	Hooks Hooks
}

// Hooks tell what happens to results. Every field may be nil; callbacks must return
// quickly and come from any goroutine.
type Hooks struct {
	// Failed is called for each try to store a state that failed.
	Failed func(taskID string, err error)
	// Kept is called when a state is kept in memory, after err.
	Kept func(taskID string, err error)
	// Dropped is called when a state that was kept is lost, and why.
	Dropped func(taskID string, err error)
	// Replaced is called when a record can't be written as it is, for each try (Form).
	Replaced func(taskID string, err error)
}

// Counts are figures since New.
type Counts struct {
	// Failed counts the tries to store a state that failed
	// (result_storage_retries_total).
	Failed uint64
	// Kept is how many states are in memory now, Dropped how many have been lost.
	Kept    int
	Dropped uint64
}

// Errors of a state that was kept and is lost.
var (
	errFull    = errors.New("results: rayserve: too many results wait for the broker")
	errStopped = errors.New("results: rayserve: stopped before the broker took it")
)

// Backend is a results.Backend for Ray Serve's producers.
type Backend struct {
	inner  store
	form   Form
	hooks  Hooks
	memory *memory
	// patience bounds one try, rest is between two, last bounds all that Stop tries.
	patience, rest, last time.Duration

	failed, dropped atomic.Uint64
	// news says that there may be something to try in the background.
	news    chan struct{}
	life    context.Context //nolint:containedctx // of the goroutine that Start starts and Stop ends
	end     context.CancelFunc
	running sync.WaitGroup
	ending  sync.Once
}

var (
	_ results.Backend = (*Backend)(nil)
	_ results.Glancer = (*Backend)(nil)
)

// store is the broker's backend.
type store interface {
	results.Backend
	results.Glancer
}

// New checks config and prepares the connection; Start makes it.
func New(config Config) (*Backend, error) {
	if config.Prefix == "" {
		config.Prefix = DefaultPrefix
	}
	if config.Expiry == 0 {
		config.Expiry = DefaultExpiry
	}
	if config.Expiry < time.Second || config.Expiry > MaxExpiry {
		return nil, fmt.Errorf("results: rayserve: expiry %s is not between 1s and %s", config.Expiry, MaxExpiry)
	}
	if config.MaxResult != 0 && config.MaxResult < minMaxResult {
		return nil, fmt.Errorf("results: rayserve: max result %d is below %d bytes", config.MaxResult, minMaxResult)
	}
	form := Form{MaxResult: config.MaxResult, Replaced: config.Hooks.Replaced}
	inner, err := kubemq.New(kubemq.Config{
		Connection: config.Connection, Prefix: config.Prefix, MaxExpires: config.Expiry, Form: form, ExactIDs: true,
	})
	if err != nil {
		return nil, err
	}
	return newBackend(inner, form, config.Hooks), nil
}

func newBackend(inner store, form Form, hooks Hooks) *Backend {
	b := &Backend{
		inner: inner, form: form, hooks: hooks, memory: newMemory(form.Keeps),
		patience: tryPatience, rest: tryRest, last: lastPatience, news: make(chan struct{}, 1),
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// Start returns once the broker has answered; it tries until ctx ends.
func (b *Backend) Start(ctx context.Context) error {
	if err := b.inner.Start(ctx); err != nil {
		return err
	}
	b.running.Go(b.retry)
	return nil
}

// Stop tries once more, for a few seconds, to store what is kept, and closes the
// connection. What can't be stored then is lost, and Hooks.Dropped is told.
func (b *Backend) Stop() error {
	b.ending.Do(func() {
		b.end()
		b.running.Wait()
		b.tryLast()
	})
	return b.inner.Stop()
}

// Fetch reads the newest state of a task, from memory where one is kept;
// results.ErrNotFound when there is none.
func (b *Backend) Fetch(ctx context.Context, taskID string) (protocol.Meta, error) {
	if k := b.memory.get(taskID); k != nil {
		return b.form.Decode(k.body)
	}
	return b.inner.Fetch(ctx, taskID)
}

// Glance is Fetch for who looks again and again (results.Glancer).
func (b *Backend) Glance(ctx context.Context, taskID string) (protocol.Meta, error) {
	if k := b.memory.get(taskID); k != nil {
		return b.form.Decode(k.body)
	}
	return b.inner.Glance(ctx, taskID)
}

// Forget removes everything that is stored for a task.
func (b *Backend) Forget(ctx context.Context, taskID string) error {
	b.memory.forget(taskID)
	return b.inner.Forget(ctx, taskID)
}

// Counts are the figures at this moment.
func (b *Backend) Counts() Counts {
	return Counts{Failed: b.failed.Load(), Kept: b.memory.len(), Dropped: b.dropped.Load()}
}

// Store writes a state, at the third try a second apart if need be. A final state that
// can't be stored then is kept in memory and tried again in the background, and the
// error is nil; for another one it is returned. A state of a task of which one is kept
// takes its place there, unless that is SUCCESS or CANCELLED. What nobody can store, a
// task id that is no queue's name (transport.ErrName), is refused at once.
//
// StoreOptions.Expires does not count here: a result expires as the backend's Config
// says. StoreOptions.First counts for PENDING only, which a producer stores before
// anything else.
func (b *Backend) Store(ctx context.Context, meta protocol.Meta, options results.StoreOptions) error {
	options = results.StoreOptions{First: options.First && meta.Status == protocol.StatePending}
	if b.memory.get(meta.TaskID) != nil {
		return b.keep(meta, nil)
	}
	err := b.tryThrice(ctx, meta, options)
	if err == nil || hopeless(err) || !meta.Status.Ready() {
		return err
	}
	return b.keep(meta, err)
}

// keep puts a state into memory, after err.
func (b *Backend) keep(meta protocol.Meta, err error) error {
	body, _, unfit := b.form.Encode(meta)
	if unfit != nil {
		return errors.Join(err, unfit)
	}
	gone, ok := b.memory.put(&kept{taskID: meta.TaskID, state: meta.Status, body: body})
	if !ok {
		return errors.Join(err, fmt.Errorf("results: store the result of task %q: %w", meta.TaskID, transport.ErrStopped))
	}
	if err != nil && b.hooks.Kept != nil {
		b.hooks.Kept(meta.TaskID, err)
	}
	for _, k := range gone {
		b.drop(k, errFull)
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
	return nil
}

func (b *Backend) drop(k *kept, err error) {
	b.dropped.Add(1)
	if b.hooks.Dropped != nil {
		b.hooks.Dropped(k.taskID, err)
	}
}
