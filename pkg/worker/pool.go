package worker

import (
	"sync"
	"sync/atomic"
)

// pool runs jobs on goroutines that it keeps: it starts one only when none is
// idle, so it grows to the number of slots in use and an idle worker is small.
type pool struct {
	run  func(*job)
	done func(*job) // gives the job's slot back
	busy atomic.Int64

	mu   sync.Mutex
	idle int
	jobs chan *job
	all  sync.WaitGroup
}

// newPool makes a pool; size is the most slots that there will be at once.
func newPool(size int, run, done func(*job)) *pool {
	return &pool{run: run, done: done, jobs: make(chan *job, size)}
}

// submit hands over a job whose slot is reserved. It doesn't block: a job goes to the
// channel only for a goroutine that is idle, or to a new one, however many slots there
// are by now.
func (p *pool) submit(j *job) {
	p.busy.Add(1)
	p.mu.Lock()
	if p.idle > 0 {
		p.idle--
		p.mu.Unlock()
		p.jobs <- j
		return
	}
	p.mu.Unlock()
	p.all.Go(func() { p.work(j) })
}

func (p *pool) work(j *job) {
	for ok := true; ok; j, ok = <-p.jobs {
		p.one(j)
		p.mu.Lock()
		p.idle++
		p.mu.Unlock()
	}
}

// one runs a job and gives its slot back, also when the handler ends the
// goroutine (runtime.Goexit); the pool starts another one then.
func (p *pool) one(j *job) {
	defer p.done(j)
	defer p.busy.Add(-1)
	p.run(j)
}

// close waits for the running jobs. Nothing may be submitted from here on.
func (p *pool) close() {
	close(p.jobs)
	p.all.Wait()
}
