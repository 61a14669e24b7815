package broker

import (
	"context"
	"slices"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// group is how the original hands out the messages of a queue: every Get is a
// member, with room for MaxItems messages, from its request until its transaction
// has ended. Whoever has room gets the next message, whether its client still
// wants one or not. Guarded by queues.mu.
type group struct {
	queues  *queues
	queue   *queue
	members []*member
	// returned are messages that the last member left behind. They are ready, but
	// the next member takes them all.
	returned map[*message]struct{}
	// turn is the member that gets the next message of one that leaves.
	turn int
}

// member is a Get and then its transaction.
type member struct {
	group *group
	claim *claim // collects what the Get is answered with
	max   int    // messages that it may have
	// staying says that the Get opened a transaction.
	staying bool
	// asking says that the Get is not over: what comes is for its answer.
	asking bool
	// open counts the messages that the client got, or will get, and has not settled.
	open int
	// hidden came when the Get was over, parked are on their way from a member that
	// left; both are in flight.
	hidden []*message
	parked map[*message]struct{}
}

// join makes a Get a member.
func (qs *queues) join(w want) (*member, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, err := qs.queue(w.queue)
	if err != nil {
		return nil, err
	}
	if q.group == nil {
		q.group = &group{queues: qs, queue: q}
	}
	m := &member{
		group: q.group, max: w.max, asking: true, parked: make(map[*message]struct{}),
		claim: &claim{queues: qs, want: w, in: q, woken: make(chan struct{}, 1)},
	}
	m.claim.member = m
	q.group.members = append(q.group.members, m)
	m.takeReturned()
	q.group.dispatch()
	qs.touch(q)
	return m, nil
}

// takeReturned takes what was left behind, more than there is room for.
func (m *member) takeReturned() {
	g := m.group
	for _, left := range slices.SortedFunc(slices.Values(g.queue.ready.items), bySequenceOrder) {
		if _, returned := g.returned[left]; returned {
			g.queues.removeReady(left)
			g.queue.hold(left)
			m.receive(left)
		}
	}
	g.returned = nil
}

func bySequenceOrder(a, b *message) int {
	if (bySequence{}).before(a, b) {
		return -1
	}
	return 1
}

// dispatch gives what is ready to those who have room, if there is a group.
func (g *group) dispatch() {
	if g == nil {
		return
	}
	for m := g.free(); m != nil; m = g.free() {
		one := claim{queues: g.queues, want: want{max: 1}}
		ready := one.gather(g.queue)
		if len(ready) == 0 {
			return
		}
		g.queue.hold(ready[0])
		m.receive(ready[0])
	}
}

// size is how many members there are; a queue without a group has none.
func (g *group) size() int {
	if g == nil {
		return 0
	}
	return len(g.members)
}

// free is the member with the least that has room, or nil.
func (g *group) free() *member {
	var free *member
	for _, m := range g.members {
		if m.load() < m.max && (free == nil || m.load() < free.load()) {
			free = m
		}
	}
	return free
}

func (m *member) load() int { return m.open + len(m.hidden) }

// receive takes a message in flight: into the answer, or out of everybody's sight.
func (m *member) receive(msg *message) {
	if !m.asking || m.open == m.max {
		m.hidden = append(m.hidden, msg)
		return
	}
	m.open++
	m.claim.messages = append(m.claim.messages, msg)
	if m.open == m.max || !m.group.queues.quirks.FullBatchWait {
		select {
		case m.claim.woken <- struct{}{}:
		default:
		}
	}
}

// collect waits for the end of the Get.
func (m *member) collect(ctx context.Context) {
	timer := time.NewTimer(m.claim.wait)
	defer timer.Stop()
	select {
	case <-m.claim.woken:
	case <-timer.C:
	case <-ctx.Done():
	}
	qs := m.group.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	m.asking = false
	if !qs.quirks.Capture {
		m.max = m.open
	}
}

// runMember is run for a Get that joins a group.
func (g *get) runMember(ctx context.Context) {
	m, err := g.queues.join(g.want)
	if err != nil {
		g.fail(err)
		return
	}
	m.collect(ctx)
	if len(m.claim.messages) == 0 {
		m.leave(nil)
		g.deliver(ctx, m.claim)
		return
	}
	g.deliver(ctx, m.claim)
	if !m.staying {
		m.leave(nil)
	}
}

// stay notes that the Get becomes a transaction.
func (m *member) stay() *member {
	if m != nil {
		m.staying = true
	}
	return m
}

// settled follows a settlement, which may have been the last of the transaction.
// The freed places are taken before that ends. Without quirks there is no member.
func (m *member) settled(ctx context.Context, open int, kind pb.QueuesDownstreamRequestType, done *commit) {
	if m == nil {
		return
	}
	// The copy of a nacked message is there before the original gives its place up.
	// Whether ctx or the broker ends meanwhile makes no difference.
	_ = done.wait(ctx)
	qs := m.group.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	refill := qs.quirks.Capture
	if open == 0 {
		refill = qs.quirks.Stealing
	}
	if !refill {
		m.max -= m.open - open
	}
	m.open = open
	m.group.dispatch()
	if open == 0 {
		nack := kind == pb.QueuesDownstreamRequestType_NAckAll || kind == pb.QueuesDownstreamRequestType_NAckRange
		m.remove(nil, nack)
	}
}

// leave ends the transaction with what is open in it, and returns what of that
// goes back to the queue; all of it if there is no member.
func (m *member) leave(open []*delivery) []*delivery {
	if m == nil {
		return open
	}
	m.group.queues.mu.Lock()
	defer m.group.queues.mu.Unlock()
	if !m.group.queues.quirks.Stealing {
		m.remove(nil, false)
		return open
	}
	left := make([]*message, 0, len(open))
	for _, d := range open {
		left = append(left, d.message)
	}
	m.remove(left, false)
	return nil
}

// remove takes m out of its group. What it had goes to another member: at once, or
// when it has been parked.
func (m *member) remove(left []*message, atOnce bool) {
	g := m.group
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	left = append(left, m.hidden...)
	for msg := range m.parked {
		left = append(left, msg)
	}
	left = slices.DeleteFunc(left, func(msg *message) bool { return msg.gone })
	slices.SortFunc(left, bySequenceOrder)
	switch {
	case !g.queues.quirks.Stealing || len(g.members) == 0:
		g.putBack(left)
	case atOnce:
		for _, msg := range left {
			g.next().receive(msg)
		}
	default:
		for _, msg := range left {
			g.park(msg)
		}
	}
	g.queues.touch(g.queue)
}

// putBack makes messages ready.
func (g *group) putBack(left []*message) {
	if g.queues.quirks.Stealing && g.returned == nil {
		g.returned = make(map[*message]struct{})
	}
	for _, msg := range left {
		if g.returned != nil {
			g.returned[msg] = struct{}{}
		}
		g.queue.letGo(msg)
		g.queues.enter(msg)
	}
}

// next is whose turn it is to be given somebody else's message.
func (g *group) next() *member {
	g.turn++
	return g.members[g.turn%len(g.members)]
}

// park leaves a message with a member for a time, and offers it again then.
func (g *group) park(msg *message) {
	keeper, quirks := g.next(), g.queues.quirks
	keeper.parked[msg] = struct{}{}
	_ = quirks.spawn(func() { // or the broker ends
		timer := time.NewTimer(quirks.ParkTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			g.offer(msg, keeper)
		case <-quirks.stopped:
		}
	})
}

// offer gives a message that was parked to a member with room; without one its
// keeper has it for good. If the keeper left, the message is elsewhere.
func (g *group) offer(msg *message, keeper *member) {
	g.queues.mu.Lock()
	defer g.queues.mu.Unlock()
	if _, here := keeper.parked[msg]; !here || !slices.Contains(g.members, keeper) {
		return
	}
	delete(keeper.parked, msg)
	if msg.gone {
		return
	}
	if free := g.free(); free != nil {
		keeper = free
	}
	keeper.receive(msg)
}
