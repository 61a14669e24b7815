package broker

import (
	"fmt"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// ledger keeps, across crashes, what a broker promised about each message.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry // by body
	faults  []string          // broken promises
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
	drained   bool      // it came after the last kill
}

func (e *entry) delayed() bool { return !e.notBefore.IsZero() }

func newLedger() *ledger { return &ledger{entries: make(map[string]*entry)} }

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

// sawEverything reports whether each kind of promise has been made.
func (l *ledger) sawEverything() bool {
	return l.count(func(e *entry) bool { return e.answered && e.delayed() }) > 0 &&
		l.count(func(e *entry) bool { return e.acked }) > 0 &&
		l.count(func(e *entry) bool { return e.nacked > 0 }) > 0
}

// owed counts the messages that must still come.
func (l *ledger) owed() int {
	return l.count(func(e *entry) bool { return e.answered && !e.ackSent })
}

// summary tells what became of all messages.
func (l *ledger) summary(owed int) string {
	count := func(what string, holds func(*entry) bool) string {
		return fmt.Sprintf("\n  %8d  %s", l.count(holds), what)
	}
	return "of all messages" +
		count("sends were answered", func(e *entry) bool { return e.answered }) +
		count("of these with a delay", func(e *entry) bool { return e.answered && e.delayed() }) +
		count("sends were cut off, and the message was there", func(e *entry) bool { return !e.answered && e.ackSent }) +
		count("sends were cut off, and it was not seen", func(e *entry) bool { return !e.answered && !e.ackSent }) +
		count("were acked and confirmed before the last kill", func(e *entry) bool { return e.acked && !e.drained }) +
		count("acks were cut off", func(e *entry) bool { return e.ackSent && !e.acked }) +
		count("were nacked and confirmed at least once", func(e *entry) bool { return e.nacked > 0 }) +
		fmt.Sprintf("\n  %8d  were owed after the last kill", owed) +
		fmt.Sprintf("\n  %8d  of them were lost, %d came back after an ack, early or with a wrong count", l.owed(), len(l.faults))
}
