package rayserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// tries and tryRest are the adapter's. tryPatience leaves all three well within the
	// half minute that the engine waits.
	tries       = 3
	tryRest     = time.Second
	tryPatience = 5 * time.Second
	// maxRest is the longest pause of the background between two tries that failed.
	maxRest = 30 * time.Second
	// lastPatience bounds what Stop tries.
	lastPatience = 10 * time.Second
)

// hopeless tells whether trying again changes nothing.
func hopeless(err error) bool {
	var encode *protocol.EncodeError
	return errors.Is(err, transport.ErrName) || errors.Is(err, transport.ErrStopped) || errors.As(err, &encode)
}

// tryThrice stores a state, unless three tries fail or ctx ends.
func (b *Backend) tryThrice(ctx context.Context, meta protocol.Meta, options results.StoreOptions) error {
	for try := 1; ; try++ {
		err := b.try(ctx, meta, options)
		if err == nil || hopeless(err) || try == tries || pause.For(ctx, b.rest) != nil {
			return err
		}
		options.First = false // an unconfirmed try may have stored it
	}
}

// try stores a state, or as much of it as the broker takes.
func (b *Backend) try(ctx context.Context, meta protocol.Meta, options results.StoreOptions) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	err := b.inner.Store(ctx, meta, options)
	if errors.Is(err, transport.ErrTooLarge) {
		if b.hooks.Replaced != nil {
			b.hooks.Replaced(meta.TaskID, err)
		}
		err = b.inner.Store(ctx, tooLarge(meta, "the result is larger than the broker takes"), options)
	}
	if err != nil {
		b.failed.Add(1)
		if b.hooks.Failed != nil {
			b.hooks.Failed(meta.TaskID, err)
		}
	}
	return err
}

// retry goes on trying what is kept, until Stop.
func (b *Backend) retry() {
	rests := backoff.NewExponentialBackOff()
	rests.InitialInterval, rests.MaxInterval = b.rest, maxRest
	for b.life.Err() == nil {
		k := b.memory.next()
		if k == nil {
			select {
			case <-b.news:
			case <-b.life.Done():
			}
			continue
		}
		if b.tryKept(b.life, k) {
			rests.Reset()
			continue
		}
		if pause.For(b.life, rests.NextBackOff()) != nil {
			return
		}
	}
}

// tryKept stores a state that is kept; it is true when nothing more is to be done for it.
func (b *Backend) tryKept(ctx context.Context, k *kept) bool {
	meta, unreadable := b.form.Decode(k.body)
	err := unreadable
	if err == nil {
		err = b.try(ctx, meta, results.StoreOptions{})
	}
	switch {
	case err == nil:
		b.memory.done(k)
	case unreadable != nil || hopeless(err):
		b.memory.done(k)
		b.drop(k, err)
	default:
		return false
	}
	return true
}

// tryLast tries everything once more.
func (b *Backend) tryLast() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.life), b.last)
	defer cancel()
	for _, k := range b.memory.close() {
		if ctx.Err() != nil || !b.tryKept(ctx, k) {
			b.memory.done(k)
			b.drop(k, fmt.Errorf("task %q: %w", k.taskID, errStopped))
		}
	}
}
