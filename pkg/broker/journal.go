package broker

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxCommitMutations bounds what the journal writes with one sync, so that a
// flood of commits does not make the first of them wait for all.
const maxCommitMutations = 8192

// maxPendingBytes bounds the payloads that wait to be written; senders wait for
// their share.
const maxPendingBytes = 64 << 20

// commit is a set of changes that become durable together.
type commit struct {
	mutations []mutation
	// reserved is the share of maxPendingBytes that is free again with done.
	reserved int64
	// apply lets the changes take effect in memory. It runs under queues.mu, in
	// the order in which commits were added; not at all if err is set.
	apply func()
	// done is closed when the commit took effect or failed; err is set before.
	done chan struct{}
	err  error
}

// wait returns when the commit took effect, at once for a nil commit. After an
// error of ctx it is open whether it will.
func (c *commit) wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed is the error of a commit that is known not to have happened.
func (c *commit) failed() error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// journal writes commits to the store in the order in which they were added:
// while one sync runs, the next commits gather and share the next one.
//
// The first error is final. What failed to be written can't be promised, and
// what comes after it might depend on it; so the broker stops.
type journal struct {
	store  store
	memory sync.Locker // queues.mu, held while commits take effect

	mu      sync.Mutex
	pending []*commit
	wake    chan struct{} // capacity 1: there is something pending, or closing
	closing bool
	err     error

	budget  *semaphore.Weighted
	failed  chan struct{} // closed with the first error
	stopped chan struct{} // closed when run has returned
}

func newJournal(store store, memory sync.Locker) *journal {
	return &journal{
		store:   store,
		memory:  memory,
		wake:    make(chan struct{}, 1),
		budget:  semaphore.NewWeighted(maxPendingBytes),
		failed:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// reserve waits until the journal has room for so many bytes of payload and
// returns the share to pass to add. The caller must not hold queues.mu.
func (j *journal) reserve(ctx context.Context, bytes int64) (int64, error) {
	share := min(bytes, maxPendingBytes)
	if err := j.budget.Acquire(ctx, share); err != nil {
		return 0, fmt.Errorf("broker: wait for room in the journal: %w", err)
	}
	return share, nil
}

// add queues a commit without payloads. The caller holds queues.mu, which makes
// the order of commits the order of what happened in memory. apply may be nil.
func (j *journal) add(mutations []mutation, apply func()) *commit {
	return j.addReserved(mutations, 0, apply)
}

// addReserved is add for a commit whose payloads got their share from reserve.
func (j *journal) addReserved(mutations []mutation, reserved int64, apply func()) *commit {
	c := &commit{mutations: mutations, reserved: reserved, apply: apply, done: make(chan struct{})}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		j.finish(c, j.err)
		return c
	}
	j.pending = append(j.pending, c)
	j.signal()
	return c
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run writes until close is called and everything is written.
func (j *journal) run() {
	defer close(j.stopped)
	broken := j.store.failed()
	for {
		select {
		case <-j.wake:
		case <-broken:
			broken = nil
			j.fail(fmt.Errorf("broker: the store failed: %w", j.store.failure()), nil)
		}
		for batch := j.next(); len(batch) > 0; batch = j.next() {
			j.write(batch)
		}
		if j.finished() {
			return
		}
	}
}

// next takes the commits for one sync.
func (j *journal) next() []*commit {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, mutations := 0, 0
	for n < len(j.pending) && mutations < maxCommitMutations {
		mutations += len(j.pending[n].mutations)
		n++
	}
	batch := j.pending[:n:n]
	j.pending = j.pending[n:]
	if len(j.pending) == 0 {
		j.pending = nil
	}
	return batch
}

func (j *journal) finished() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closing && len(j.pending) == 0
}

func (j *journal) write(batch []*commit) {
	var mutations []mutation
	for _, c := range batch {
		mutations = append(mutations, c.mutations...)
	}
	if err := j.commit(mutations); err != nil {
		j.fail(err, batch)
		return
	}
	j.memory.Lock()
	for _, c := range batch {
		if c.apply != nil {
			c.apply()
		}
	}
	j.memory.Unlock()
	for _, c := range batch {
		j.finish(c, nil)
	}
}

// finish answers whoever waits for c.
func (j *journal) finish(c *commit, err error) {
	c.err = err
	c.mutations, c.apply = nil, nil // c lives on as the barrier of its stream
	j.budget.Release(c.reserved)
	close(c.done)
}

func (j *journal) commit(mutations []mutation) error {
	if err := j.failure(); err != nil {
		return err
	}
	if len(mutations) == 0 {
		return nil
	}
	if err := j.store.commit(mutations); err != nil {
		return fmt.Errorf("broker: write to the store: %w", err)
	}
	return nil
}

// fail ends batch and everything after it with err.
func (j *journal) fail(err error, batch []*commit) {
	j.mu.Lock()
	if j.err == nil {
		j.err = err
		close(j.failed)
	}
	batch = append(batch, j.pending...)
	j.pending = nil
	j.mu.Unlock()
	for _, c := range batch {
		j.finish(c, err)
	}
}

// failure is the error that ended the journal, or nil.
func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// close waits until everything that was added is written.
func (j *journal) close() {
	j.mu.Lock()
	j.closing = true
	j.mu.Unlock()
	j.signal()
	<-j.stopped
}
