package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Quirks turns behaviours of the KubeMQ server of 2023 (Community 2.4.0) on, as
// they were measured (docs/protocol.md), so that clients can be tested against
// them without that server. For tests only: with them messages stand still, and
// with some they are lost.
//
// One of its behaviours is not here because the broker always has it: a message
// whose consumer went away comes back with the same receive count, so a task that
// crashes its worker is never dead-lettered.
type Quirks struct {
	// FullBatchWait lets a Get with fewer than MaxItems messages wait to the end of
	// its time, with what it has hidden from others. Config.MinWait is a second
	// then, if it is not set.
	FullBatchWait bool
	// Capture lets a transaction that has room, because its Get asked for more than
	// it got or because some of it is settled, take what comes to the queue. Nobody
	// sees that until the transaction ends.
	Capture bool
	// Stealing gives the place that the last ack or nack of a transaction frees to
	// the next message, although the transaction ends with it. What a transaction
	// leaves behind so, or by the end of its stream, is parked with another one of
	// the queue. After ParkTime it goes to a Get that waits, and without one it
	// stays hidden until the other transaction ends; after a nack it goes there at
	// once. Where there is no other transaction and no Get, the next Get takes it
	// all, and hides what is more than its MaxItems.
	Stealing bool
	// SerialStreams handles the requests of a downstream stream one after another:
	// settlements stand behind a waiting Get.
	SerialStreams bool
	// DeadGets lets the Get of a stream that ended wait on: one with AutoAck
	// consumes messages for nobody, and what the stream held is not released before.
	DeadGets bool
	// DelayWindow lets only the 1,024 oldest delayed messages of the whole broker
	// arrive.
	DelayWindow bool
	// DelayIndex keeps one delayed message for each MessageID: the next one replaces
	// it. Messages from before a restart are not replaced.
	DelayIndex bool
	// LostResponses stores each LoseEvery-th message that comes alone in an upstream
	// request, and does not answer.
	LostResponses bool
	// LowLimits makes the defaults of Config.MaxDelay and Config.MaxExpiration
	// 43,200 seconds.
	LowLimits bool
	// NoInternalChannel lets requests that create, list and delete channels end with
	// Error 301 after their timeout: nobody answers them.
	NoInternalChannel bool
	// NoPlaces leaves out of the answer to a send what the original's don't tell: the
	// sequence.
	NoPlaces bool

	// ParkTime and LoseEvery are the original's if they are 0: 100 ms and 10,000.
	// Smaller ones make shorter tests.
	ParkTime  time.Duration
	LoseEvery int
}

// AllQuirks is the server of 2023 as far as Quirks knows it.
func AllQuirks() Quirks {
	return Quirks{
		FullBatchWait:     true,
		Capture:           true,
		Stealing:          true,
		SerialStreams:     true,
		DeadGets:          true,
		DelayWindow:       true,
		DelayIndex:        true,
		LostResponses:     true,
		LowLimits:         true,
		NoInternalChannel: true,
		NoPlaces:          true,
	}
}

// The original's numbers.
const (
	quirkMinWait       = time.Second
	quirkMaxDelay      = 43_200 * time.Second
	quirkMaxExpiration = 43_200 * time.Second
	quirkParkTime      = 100 * time.Millisecond
	quirkDelayWindow   = 1024
	quirkLoseEvery     = 10_000
)

// withQuirkDefaults fills what is zero and has another default with a quirk.
func (c Config) withQuirkDefaults() Config {
	if c.Quirks.FullBatchWait {
		setDefault(&c.MinWait, quirkMinWait)
	}
	if c.Quirks.LowLimits {
		setDefault(&c.MaxDelay, quirkMaxDelay)
		setDefault(&c.MaxExpiration, quirkMaxExpiration)
	}
	setDefault(&c.Quirks.ParkTime, quirkParkTime)
	setDefault(&c.Quirks.LoseEvery, quirkLoseEvery)
	return c
}

// groups tells whether Gets are members of their queue's group (quirk_group.go).
func (q Quirks) groups() bool { return q.FullBatchWait || q.Capture || q.Stealing }

// quirkState is what quirks keep besides the index of messages.
type quirkState struct {
	Quirks

	// delayed are the delayed messages by MessageID; guarded by queues.mu.
	delayed map[string]*message
	// alone counts upstream requests with a single message.
	alone atomic.Int64

	mu      sync.Mutex
	stopped chan struct{} // closed by stop
	workers sync.WaitGroup
}

func newQuirkState(quirks Quirks) *quirkState {
	return &quirkState{Quirks: quirks, delayed: make(map[string]*message), stopped: make(chan struct{})}
}

// stop ends what outlives its stream, and waits for it.
func (s *quirkState) stop() {
	s.mu.Lock()
	close(s.stopped)
	s.mu.Unlock()
	s.workers.Wait()
}

// spawn runs work, which must end with stopped. It does nothing after stop, and
// reports that.
func (s *quirkState) spawn(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return false
	default:
		s.workers.Go(work)
		return true
	}
}

// outlive is the context of a Get: the stream's, or with DeadGets one that only
// the broker ends.
func (s *quirkState) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.DeadGets {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if !s.spawn(func() {
		select {
		case <-s.stopped:
			cancel()
		case <-ctx.Done():
		}
	}) {
		cancel()
	}
	return ctx, cancel
}

// loses tells whether the answer to an upstream request gets lost.
func (s *quirkState) loses(messages int) bool {
	return s.LostResponses && messages == 1 && s.alone.Add(1)%int64(s.LoseEvery) == 0
}
