package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// onceStoring bounds what Once does in the store after a handler has ended. It
// happens while a worker stops too.
const onceStoring = 10 * time.Second

// Once returns middleware that lets a task run to its success once for each key,
// whatever the ids of the calls are and whichever worker has them. It is given to
// one task by Wrap, or to all by Registry.Use. Of further calls with the same key,
//
//   - one that comes while the first runs is retried after a while, with the cause
//     ErrOnceRunning and without a limit; these retries count as the task's own;
//   - one that comes after its success doesn't run the handler and returns the
//     stored result, so that callers and chains go on;
//   - one that comes after it ended in any other way runs: after a failure, a panic,
//     a Retry, Reject or Ignore;
//   - one that comes after the death of its process runs once the lease is over.
//
// A running handler renews its lease. If that fails for the length of a lease its
// context ends with the cause ErrOnceLost, because another call may run then.
//
// A claim that can't be made is retried like any error of the handler by Retry. A
// result is kept in the form in which it goes over the wire.
func Once(store OnceStore, options ...OnceOption) Middleware {
	if store == nil {
		return nil // Wrap and Registry.Use report it
	}
	o := &once{
		store: store, key: allArguments, lease: time.Minute, keep: 24 * time.Hour, wait: 10 * time.Second,
		report: func(context.Context, error) {},
	}
	for _, option := range options {
		option(o)
	}
	return o.middleware
}

type once struct {
	store             OnceStore
	key               OnceKey
	lease, keep, wait time.Duration
	report            func(context.Context, error)
}

func (o *once) middleware(task *Task, next HandlerFunc) HandlerFunc {
	return func(ctx context.Context, args Arguments) (any, error) {
		key, err := o.keyOf(task, args)
		var misfit *ArgumentError
		switch {
		case errors.As(err, &misfit):
			return next(ctx, args) // which says in Python's words what is wrong
		case err != nil:
			return nil, fmt.Errorf("tasks: once: the key of a call of %s: %w", task.name, err)
		case key == "":
			return next(ctx, args)
		}
		owner := uuid.NewString()
		asked := time.Now()
		state, err := o.store.Claim(ctx, key, owner, o.lease)
		switch {
		case err != nil:
			return nil, Retry(ctx, fmt.Errorf("tasks: once: claim the key of a call of %s: %w", task.name, err), Countdown(o.wait))
		case state.Done:
			return o.storedResult(task, state.Result)
		case !state.Claimed:
			return nil, Retry(ctx, ErrOnceRunning, Countdown(o.wait), MaxRetriesFor(RetryLimitless))
		}
		return (&onceRun{once: o, key: key, owner: owner, renewed: asked}).run(ctx, next, args)
	}
}

// keyOf is the key in the store, "" for a call that is not to be made once. The
// user's key may have any length, and those of two tasks don't meet.
func (o *once) keyOf(task *Task, args Arguments) (string, error) {
	key, err := o.key(args)
	if err != nil || key == "" {
		return "", err
	}
	text, err := protocol.EncodeJSON([]any{"once", task.name, key})
	if err != nil {
		return "", err
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, text).String(), nil
}

func (*once) storedResult(task *Task, stored []byte) (any, error) {
	value, err := protocol.DecodeJSON(stored, protocol.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("tasks: once: the stored result of a call of %s can't be read: %w", task.name, err)
	}
	return value, nil
}

// onceRun is a call that has its key.
type onceRun struct {
	*once
	key, owner string
	// renewed is when the store was asked for the claim that it gave last: the lease
	// is not over before renewed + lease. It belongs to the goroutine that renews.
	renewed time.Time
}

// run calls the handler while the claim is renewed, and keeps a success or ends the
// claim, also where the handler doesn't return.
func (r *onceRun) run(ctx context.Context, next HandlerFunc, args Arguments) (value any, err error) {
	handling, lost := context.WithCancelCause(ctx)
	stopRenewing := r.keepRenewing(ctx, lost)
	succeeded := false
	defer func() {
		stopRenewing()
		lost(nil)
		if !succeeded {
			r.release(ctx)
		}
	}()
	value, err = next(handling, args)
	if err != nil {
		return nil, r.whyEnded(ctx, handling, err)
	}
	result, err := protocol.EncodeJSON(value)
	if err != nil {
		// The worker finds out too, and stores the failure that Celery stores. The
		// handler may run again then.
		return value, nil
	}
	succeeded = true
	stopRenewing()
	r.done(ctx, result)
	return value, nil
}

// whyEnded makes a retry of the error of a handler that was cut short because its
// claim was lost: the other call may succeed.
func (r *onceRun) whyEnded(ctx, handling context.Context, err error) error {
	if _, chosen := OutcomeOf(err); !chosen && errors.Is(context.Cause(handling), ErrOnceLost) {
		return Retry(ctx, fmt.Errorf("%w: %w", ErrOnceLost, err), Countdown(r.wait))
	}
	return err
}

// keepRenewing renews the claim three times in a lease until it is stopped, and
// calls lost when the lease is over. A handler whose context has ended may still be
// at work, so that doesn't end it. The function it returns waits.
func (r *onceRun) keepRenewing(ctx context.Context, lost context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(r.lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if !r.renew(ctx) {
					lost(ErrOnceLost)
					return
				}
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// renew tells whether the claim holds.
func (r *onceRun) renew(ctx context.Context) bool {
	asked := time.Now()
	ctx, cancel := context.WithDeadline(ctx, r.renewed.Add(r.lease))
	defer cancel()
	state, err := r.store.Claim(ctx, r.key, r.owner, r.lease)
	switch {
	case err == nil && state.Claimed:
		r.renewed = asked
	case err == nil:
		return false
	case errors.Is(ctx.Err(), context.Canceled):
		return true // it was stopped
	default:
		r.report(ctx, fmt.Errorf("tasks: once: renew a claim: %w", err))
	}
	// The next try comes too late for a lease that ends before it.
	return time.Now().Add(r.lease / 3).Before(r.renewed.Add(r.lease))
}

// done keeps the result. Where that fails the claim stays, so that at least for the
// rest of the lease nobody runs the call again; it did its work.
func (r *onceRun) done(ctx context.Context, result []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceStoring)
	defer cancel()
	if err := r.store.Done(ctx, r.key, result, r.keep); err != nil {
		r.report(ctx, fmt.Errorf("tasks: once: keep a result: %w", err))
	}
}

func (r *onceRun) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceStoring)
	defer cancel()
	if err := r.store.Release(ctx, r.key, r.owner); err != nil {
		r.report(ctx, fmt.Errorf("tasks: once: end a claim: %w", err))
	}
}
