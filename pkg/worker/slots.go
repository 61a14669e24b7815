package worker

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// slots are the rights to run a task. One is reserved before a message is asked
// for, so that the worker never holds more tasks than it can run.
//
// A reserved slot is given back in one of two places: fetch gives back what
// Receive didn't use, and the pool gives back a job's slot when the job is over, or
// only the proof of its settlement is missing.
//
// Queues reserve by their shares: those that are busy get as many slots each, and what
// one of them leaves goes to the others. So a queue of long tasks takes all slots while
// the others are empty, and can't keep them.
type slots struct {
	mu   sync.Mutex
	size int
	// free and those in use are size together. It is negative while more are in use
	// than there are since a resize: what comes back goes until it isn't.
	free    int
	waiters []*slotWaiter
	shares  []*share
	// lenders are recalled when somebody has to wait for a slot, or there are too many.
	lenders map[*lender]struct{}
}

// recallGrace is how long a lender may go on for others of its kind: a request whose
// messages are on their way would be given up for one that waits in its place.
const recallGrace = 50 * time.Millisecond

// lender holds slots that it can give back early.
type lender struct {
	begun    time.Time
	recalled *time.Timer // ends it; nil if it isn't recalled, or at once
	end      context.CancelFunc
}

// share is what one queue has of the slots.
type share struct {
	slots *slots
	held  int
	// busy: the queue had messages when it was last asked.
	busy bool
}

type slotWaiter struct {
	share   *share
	most    int
	first   bool     // ahead of those that are not
	granted chan int // buffered, so that a grant never blocks
}

func newSlots(size int) *slots {
	return &slots{size: size, free: size, lenders: map[*lender]struct{}{}}
}

// share is that of one more queue.
func (s *slots) share() *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &share{slots: s}
	s.shares = append(s.shares, q)
	return q
}

// reserve waits for at least one slot and takes up to most.
func (q *share) reserve(ctx context.Context, most int) (int, error) {
	return q.slots.wait(ctx, &slotWaiter{share: q, most: most})
}

// more takes up to most of what is free right now. Tasks that were settled together give
// their slots back one after the other, and the first of them wakes who waits: the others
// run first here, so that one request can ask for all.
func (q *share) more(most int) int {
	runtime.Gosched()
	q.slots.mu.Lock()
	defer q.slots.mu.Unlock()
	return q.slots.take(&slotWaiter{share: q, most: most})
}

// reserveFirst is reserve(1) ahead of the fetchers that wait, whatever the shares: for
// tasks that are due, and queries. Among them whoever came first is first.
func (q *share) reserveFirst(ctx context.Context) error {
	_, err := q.slots.wait(ctx, &slotWaiter{share: q, most: 1, first: true})
	return err
}

// release gives n slots back, to those who wait first.
func (q *share) release(n int) {
	s := q.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	q.held -= n
	s.free += n
	s.grant()
}

// setBusy says whether the queue had messages.
func (q *share) setBusy(busy bool) {
	s := q.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.busy != busy {
		q.busy = busy
		s.grant()
	}
}

func (s *slots) wait(ctx context.Context, w *slotWaiter) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	s.mu.Lock()
	if n := s.take(w); n > 0 {
		s.mu.Unlock()
		return n, nil
	}
	w.granted = make(chan int, 1)
	s.join(w)
	s.recall(w.first)
	s.mu.Unlock()

	select {
	case n := <-w.granted:
		return n, nil
	case <-ctx.Done():
	}
	if n := s.leave(w); n > 0 {
		w.share.release(n)
	}
	return 0, context.Cause(ctx)
}

// join puts w into the line, whose front are those that go first.
func (s *slots) join(w *slotWaiter) {
	at := len(s.waiters)
	if w.first {
		if i := slices.IndexFunc(s.waiters, func(other *slotWaiter) bool { return !other.first }); i >= 0 {
			at = i
		}
	}
	s.waiters = slices.Insert(s.waiters, at, w)
}

// leave takes w out of the line and returns what was granted to it meanwhile.
func (s *slots) leave(w *slotWaiter) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiters {
		if other == w {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return 0
		}
	}
	return <-w.granted
}

// resize sets how many slots there are, at least 1. Those in use stay so until they
// are given back.
func (s *slots) resize(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += size - s.size
	s.size = size
	if s.free < 0 {
		s.recall(true)
	}
	s.grant()
}

// total is how many slots there are.
func (s *slots) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// recall asks for the slots that are lent, at once if it is urgent. The lock is held.
func (s *slots) recall(urgent bool) {
	for l := range s.lenders {
		l.recall(urgent)
	}
}

func (l *lender) recall(urgent bool) {
	switch rest := recallGrace - time.Since(l.begun); {
	case urgent || rest <= 0:
		l.end()
	case l.recalled == nil:
		l.recalled = time.AfterFunc(rest, l.end)
	}
}

// grant hands free slots to those who wait. The lock is held.
func (s *slots) grant() {
	for i := 0; s.free > 0 && i < len(s.waiters); {
		w := s.waiters[i]
		granted := s.take(w)
		if granted == 0 {
			i++ // what is free is another queue's
			continue
		}
		s.waiters = slices.Delete(s.waiters, i, i+1)
		w.granted <- granted
	}
}

// take takes the free slots that w may have, maybe none. The lock is held.
func (s *slots) take(w *slotWaiter) int {
	n := min(s.free, w.most)
	if !w.first {
		n = min(n, s.allowed(w.share))
	}
	n = max(n, 0)
	s.free -= n
	w.share.held += n
	return n
}

// allowed is how many of the free slots a queue may take: those that the other busy
// queues have not missing to as many as each can have, or what it has missing itself.
func (s *slots) allowed(q *share) int {
	busy := 1
	for _, other := range s.shares {
		if other != q && other.busy {
			busy++
		}
	}
	fair := max(1, s.size/busy)
	others := 0
	for _, other := range s.shares {
		if other != q && other.busy {
			others += max(0, fair-other.held)
		}
	}
	return max(s.free-others, fair-q.held)
}

// contended tells whether someone waits for a slot.
func (s *slots) contended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters) > 0
}

// lend returns a context that ends when somebody waits for a slot, soon if that is a
// fetcher and else at once, or when slots are taken away. It is for one who only holds
// slots in case something comes.
func (s *slots) lend(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l := &lender{begun: time.Now(), end: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lenders[l] = struct{}{}
	switch {
	case s.free < 0, len(s.waiters) > 0 && s.waiters[0].first:
		l.recall(true)
	case len(s.waiters) > 0:
		l.recall(false)
	}
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.lenders, l)
		if l.recalled != nil {
			l.recalled.Stop()
		}
	}
}
