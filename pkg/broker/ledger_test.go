package broker

import (
	"fmt"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// ledger keeps, across crashes, what a broker promised about each message.
type ledger struct {
	mu       sync.Mutex
	entries  map[string]*entry // by body
	answered int
	faults   []string      // broken promises
	enough   chan struct{} // closed when a round has seen enough answers
	goal     int
}

// entry is what is known of one message.
type entry struct {
	number    int       // of its sender, which numbers ascending
	notBefore time.Time // end of its delay, as the broker answered
	answered  bool      // the send
	ackSent   bool      // it may be gone
	acked     bool      // confirmed: it must be gone
	nacksSent int32     // its receive count may be so much higher
	nacked    int32     // confirmed: it must be so much higher
}

func newLedger() *ledger { return &ledger{entries: make(map[string]*entry)} }

// round starts to count answers; the channel is closed after so many.
func (l *ledger) round(answers int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goal = l.answered + answers
	l.enough = make(chan struct{})
	return l.enough
}

func (l *ledger) sent(body string, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[body] = &entry{number: number}
}

func (l *ledger) answer(body string, result *pb.SendQueueMessageResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[body]
	e.answered = !result.IsError
	if result.DelayedTo != 0 {
		e.notBefore = time.Unix(0, result.DelayedTo)
	}
	l.answered++
	if l.answered == l.goal {
		close(l.enough)
	}
}

// delivered holds a delivery against the promises.
func (l *ledger) delivered(m *pb.QueueMessage) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[string(m.Body)]
	if e == nil {
		l.faults = append(l.faults, fmt.Sprintf("%q was never sent", m.Body))
		return &entry{}
	}
	for fault, found := range map[string]bool{
		"came back after a confirmed ack": e.acked,
		"came before its delay was over":  time.Now().Before(e.notBefore),
		"lost a confirmed nack":           m.Attributes.ReceiveCount < e.nacked+1,
		"was counted without a nack":      m.Attributes.ReceiveCount > e.nacksSent+1,
	} {
		if found {
			l.faults = append(l.faults, fmt.Sprintf("%q %s", m.Body, fault))
		}
	}
	return e
}

func (l *ledger) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// count counts the messages for which something holds.
func (l *ledger) count(holds func(*entry) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if holds(e) {
			n++
		}
	}
	return n
}

// owed counts the messages that must still come.
func (l *ledger) owed() int {
	return l.count(func(e *entry) bool { return e.answered && !e.ackSent })
}
