package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

// journal is the order in which things happened, across the fakes.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

// fakeBroker is a broker in memory whose operations can be made to fail. It runs
// inside a synctest bubble, where time costs nothing.
type fakeBroker struct {
	journal      *journal
	capabilities transport.Capabilities

	mu         sync.Mutex
	ready      map[string][]*fakeMessage
	inFlight   int
	most       int // the most that were ever in flight
	arrived    chan struct{}
	latency    time.Duration // of the answer to a Receive
	published  []fakePublished
	broadcasts []fakeBroadcast
	responders map[string]*fakeResponder
	autoAcked  bool // some Receive asked for it
	// fail, if set, decides whether an operation ("ack", "publish celery", …) fails.
	fail func(operation string) error
}

type fakeMessage struct {
	body       []byte
	attempts   int
	letter     *transport.DeadLetter
	limit      int // the producer's, with limitQueue
	limitQueue string
	firstError string
	starts     int // noted and not settled
}

type fakePublished struct {
	queue   string
	message transport.Outgoing
}

func newFakeBroker(j *journal) *fakeBroker {
	return &fakeBroker{
		journal: j, ready: map[string][]*fakeMessage{}, responders: map[string]*fakeResponder{}, arrived: make(chan struct{}),
		capabilities: transport.Capabilities{DelayTick: time.Second, MaxDelay: time.Hour},
	}
}

func (b *fakeBroker) operation(name string) error {
	b.mu.Lock()
	fail := b.fail
	b.mu.Unlock()
	if fail != nil {
		if err := fail(name); err != nil {
			b.journal.add("%s failed", name)
			return err
		}
	}
	b.journal.add("%s", name)
	return nil
}

// put makes a message ready.
// put puts a message into a queue: a copy, because whoever hands back the one it had
// may still look at that while another worker has this one.
func (b *fakeBroker) put(queue string, message *fakeMessage) {
	again := *message
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready[queue] = append(b.ready[queue], &again)
	close(b.arrived)
	b.arrived = make(chan struct{})
}

func (b *fakeBroker) waiting(queue string) []*fakeMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*fakeMessage(nil), b.ready[queue]...)
}

func (b *fakeBroker) Publish(_ context.Context, queue string, message transport.Outgoing) error {
	if err := b.operation("publish " + queue); err != nil {
		return err
	}
	b.mu.Lock()
	b.published = append(b.published, fakePublished{queue, message})
	b.mu.Unlock()
	time.AfterFunc(message.Delay, func() {
		b.put(queue, &fakeMessage{body: message.Body, attempts: message.Attempts})
	})
	return nil
}

func (b *fakeBroker) sent() []fakePublished {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]fakePublished(nil), b.published...)
}

func (b *fakeBroker) Broadcast(_ context.Context, channel string, body []byte, tags map[string]string) error {
	if err := b.operation("broadcast " + channel); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broadcasts = append(b.broadcasts, fakeBroadcast{channel, body, tags})
	return nil
}

// Respond makes the broker one that has queries.
func (b *fakeBroker) Respond(
	ctx context.Context, channel string, limit int, answer transport.Answer,
) (transport.Subscription, error) {
	if err := b.operation(fmt.Sprintf("respond %s %d", channel, limit)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &fakeResponder{answer: answer}
	r.work, r.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	b.responders[channel] = r
	return r, nil
}

// query asks who responds on a channel, as the broker would.
func (b *fakeBroker) query(channel string, body []byte, timeout time.Duration) (answer []byte, answered bool) {
	b.mu.Lock()
	r := b.responders[channel]
	r.running.Add(1)
	b.mu.Unlock()
	defer r.running.Done()
	ctx, cancel := context.WithTimeout(r.work, timeout)
	defer cancel()
	return r.answer(ctx, body)
}

type fakeResponder struct {
	answer  transport.Answer
	work    context.Context
	stop    context.CancelCauseFunc
	running sync.WaitGroup
}

func (r *fakeResponder) Close() error {
	r.stop(transport.ErrStopped)
	r.running.Wait()
	return nil
}

type fakeBroadcast struct {
	channel string
	body    []byte
	tags    map[string]string
}

func (*fakeBroker) Subscribe(context.Context, string, func([]byte)) (transport.Subscription, error) {
	return nil, transport.ErrStopped
}

func (*fakeBroker) Start(context.Context) error { return nil }
func (*fakeBroker) Stop() error                 { return nil }

func (b *fakeBroker) Capabilities() transport.Capabilities { return b.capabilities }

func (b *fakeBroker) Consumer(queue string) (transport.Consumer, error) {
	if queue == "///" {
		return nil, fmt.Errorf("%w: %q", transport.ErrName, queue)
	}
	return &fakeConsumer{broker: b, queue: queue}, nil
}

type fakeConsumer struct {
	broker *fakeBroker
	queue  string
}

func (c *fakeConsumer) Receive(
	ctx context.Context, request transport.ReceiveRequest, deliver func(transport.Delivery),
) error {
	if err := c.broker.operation("receive " + c.queue); err != nil {
		return err
	}
	c.broker.mu.Lock()
	c.broker.autoAcked = c.broker.autoAcked || request.AutoAck
	c.broker.mu.Unlock()
	if c.broker.latency > 0 && pause.For(ctx, c.broker.latency) != nil {
		return nil
	}
	timer := time.NewTimer(request.Wait)
	defer timer.Stop()
	for {
		taken, arrived := c.take(request.Slots)
		for _, delivery := range taken {
			deliver(delivery)
		}
		if len(taken) > 0 {
			return nil
		}
		select {
		case <-arrived:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *fakeConsumer) take(most int) ([]*fakeDelivery, chan struct{}) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(most, len(b.ready[c.queue]))
	taken := make([]*fakeDelivery, 0, n)
	for _, message := range b.ready[c.queue][:n] {
		message.attempts++
		taken = append(taken, &fakeDelivery{broker: b, queue: c.queue, message: message})
	}
	b.ready[c.queue] = b.ready[c.queue][n:]
	b.inFlight += n
	b.most = max(b.most, b.inFlight)
	return taken, b.arrived
}

func (c *fakeConsumer) Close() error { return nil }

type fakeDelivery struct {
	broker  *fakeBroker
	queue   string
	message *fakeMessage
	mu      sync.Mutex
	settled bool
	acked   bool // settled by an ack, so that a copy may follow
}

func (d *fakeDelivery) Body() []byte      { return d.message.body }
func (d *fakeDelivery) Queue() string     { return d.queue }
func (d *fakeDelivery) Attempt() int      { return d.message.attempts }
func (d *fakeDelivery) Redelivered() bool { return d.message.attempts > 1 }

func (d *fakeDelivery) Limit() (attempts int, queue string) {
	return d.message.limit, d.message.limitQueue
}

func (d *fakeDelivery) NoteError(text string) {
	if d.message.firstError == "" {
		d.message.firstError = text
	}
}

func (d *fakeDelivery) NoteStart(context.Context) (wasted int, err error) {
	if err := d.broker.operation("note start"); err != nil {
		return 0, err
	}
	wasted = d.message.starts
	d.message.starts++
	d.message.attempts += wasted
	return wasted, nil
}

func (d *fakeDelivery) settle(operation string, then func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return transport.ErrSettled
	}
	if err := d.broker.operation(operation); err != nil {
		return err
	}
	d.settled = true
	d.message.starts = 0
	d.broker.mu.Lock()
	d.broker.inFlight--
	d.broker.mu.Unlock()
	then()
	return nil
}

// copy settles by a copy, which is allowed once after an ack, too.
func (d *fakeDelivery) copy(operation string, then func()) error {
	d.mu.Lock()
	acked := d.acked
	d.acked = false
	d.mu.Unlock()
	if !acked {
		return d.settle(operation, then)
	}
	if err := d.broker.operation(operation); err != nil {
		return err
	}
	then()
	return nil
}

func (d *fakeDelivery) Ack(context.Context) error {
	return d.settle("ack", func() { d.acked = true })
}

func (d *fakeDelivery) Nack(context.Context) error {
	return d.settle("nack", func() { d.broker.put(d.queue, d.message) })
}

func (d *fakeDelivery) Requeue(_ context.Context, after time.Duration) error {
	return d.copy(fmt.Sprintf("requeue %v", after), func() {
		time.AfterFunc(after, func() { d.broker.put(d.queue, d.message) })
	})
}

func (d *fakeDelivery) Postpone(_ context.Context, after time.Duration) error {
	return d.settle(fmt.Sprintf("postpone %v", after), func() {
		d.message.attempts--
		time.AfterFunc(after, func() { d.broker.put(d.queue, d.message) })
	})
}

func (d *fakeDelivery) Release(context.Context) error {
	return d.settle("release", func() {
		d.message.attempts--
		d.broker.put(d.queue, d.message)
	})
}

func (d *fakeDelivery) DeadLetter(_ context.Context, letter transport.DeadLetter) error {
	return d.copy("dead-letter "+letter.Queue+" "+letter.Reason, func() {
		letter.FirstError = d.message.firstError
		d.message.letter = &letter
		d.broker.put(letter.Queue, d.message)
	})
}

// fakeBackend keeps results in memory.
type fakeBackend struct {
	journal *journal
	mu      sync.Mutex
	metas   map[string][]protocol.Meta
	first   map[string]bool
	fail    func(protocol.Meta) error
}

func newFakeBackend(j *journal) *fakeBackend {
	return &fakeBackend{journal: j, metas: map[string][]protocol.Meta{}, first: map[string]bool{}}
}

func (b *fakeBackend) Store(_ context.Context, meta protocol.Meta, options results.StoreOptions) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		if err := b.fail(meta); err != nil {
			b.journal.add("store %s failed", meta.Status)
			return err
		}
	}
	b.journal.add("store %s", meta.Status)
	b.metas[meta.TaskID] = append(b.metas[meta.TaskID], meta)
	b.first[meta.TaskID+" "+string(meta.Status)] = options.First
	return nil
}

func (b *fakeBackend) states(id string) []protocol.Meta {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]protocol.Meta(nil), b.metas[id]...)
}

func (*fakeBackend) Fetch(context.Context, string) (protocol.Meta, error) {
	return protocol.Meta{}, results.ErrNotFound
}
func (*fakeBackend) Forget(context.Context, string) error { return nil }
func (*fakeBackend) Start(context.Context) error          { return nil }
func (*fakeBackend) Stop() error                          { return nil }

// recorder is an observer that keeps what it was told, and writes the ends of
// tasks into the journal.
type recorder struct {
	journal *journal
	mu      sync.Mutex
	events  []Event
}

func (r *recorder) Observe(event Event) {
	r.mu.Lock()
	r.events = append(r.events, event)
	r.mu.Unlock()
	switch event.(type) {
	case TaskStarted, TaskSucceeded, TaskFailed, TaskRetried, TaskRejected, TaskRevoked, TaskCancelled, TaskIgnored:
		r.journal.add("%T", event)
	}
}

// seen are the events of one type, in order.
func seen[E Event](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []E
	for _, event := range r.events {
		if e, ok := event.(E); ok {
			found = append(found, e)
		}
	}
	return found
}
