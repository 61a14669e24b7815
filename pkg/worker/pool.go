package worker

import (
	"sync"
	"sync/atomic"
)

// pool runs jobs on goroutines that it keeps: it starts one only when none is
// idle, so it grows to the number of slots in use and an idle worker is small. What it
// has above the number of slots, while jobs wait for their proof without one, it doesn't keep.
type pool struct {
	run  func(*job)
	done func(*job) // gives the job's slot back
	busy atomic.Int64
	// early is how many jobs gave their slot back before their settlement was proven.
	early atomic.Int64
	size  int64

	mu         sync.Mutex
	goroutines int
	idle       int
	jobs       chan *job
	all        sync.WaitGroup
}

// pass is one way of a job through the pool. A job that was parked may be back before
// the pass is over that parked it: each has a slot of its own.
type pass struct{ left atomic.Bool } // the slot is given back

// newPool makes a pool; size is the most slots that there will be at once.
func newPool(size int, run, done func(*job)) *pool {
	return &pool{run: run, done: done, size: int64(size), jobs: make(chan *job, size)}
}

// submit hands over a job whose slot is reserved. It doesn't block: a job goes to the
// channel only for a goroutine that is idle, or to a new one, however many slots there
// are by now.
func (p *pool) submit(j *job) {
	p.busy.Add(1)
	j.pass = new(pass)
	p.mu.Lock()
	if p.idle > 0 {
		p.idle--
		p.mu.Unlock()
		p.jobs <- j
		return
	}
	p.goroutines++
	p.mu.Unlock()
	p.all.Go(func() { p.work(j) })
}

func (p *pool) work(j *job) {
	defer func() { // also when a handler ends it
		p.mu.Lock()
		p.goroutines--
		p.mu.Unlock()
	}()
	for ok := true; ok; j, ok = <-p.jobs {
		p.one(j)
		if !p.rest() {
			return
		}
	}
}

// rest makes a goroutine an idle one, unless there are enough.
func (p *pool) rest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(p.goroutines) > p.size {
		return false
	}
	p.idle++
	return true
}

// one runs a job and gives its slot back, also when the handler ends the
// goroutine (runtime.Goexit); the pool starts another one then.
func (p *pool) one(j *job) {
	through := j.pass
	defer func() {
		if !p.leave(j, through) {
			p.early.Add(-1)
		}
	}()
	p.run(j)
}

// leave gives the slot of a pass back, once. It is false where that was done before.
func (p *pool) leave(j *job, through *pass) bool {
	if !through.left.CompareAndSwap(false, true) {
		return false
	}
	p.busy.Add(-1)
	p.done(j)
	return true
}

// leaveEarly gives the slot of a job back whose settlement is on its way: what is asked
// for with the slot comes when the broker has dealt with that. The handler has ended, so
// no more tasks run than there are slots; and of those that wait for their proof, no more
// than there are slots gave theirs back. A task that is acked before it runs keeps its slot.
func (p *pool) leaveEarly(j *job) {
	if !j.policy.Late {
		return
	}
	if p.early.Add(1) > p.size || !p.leave(j, j.pass) {
		p.early.Add(-1)
	}
}

// close waits for the running jobs. Nothing may be submitted from here on.
func (p *pool) close() {
	close(p.jobs)
	p.all.Wait()
}
