// Package canvas works out what follows the outcome of a task: its link
// callbacks and the next step of its chain after a success, its errbacks and the
// steps that never run after a failure. It is pure: it makes the messages, the
// worker publishes them.
//
// The rules are Celery's (docs/protocol.md §22). What a worker would have to join,
// a chord, it does not do: a message that needs one is an *UnsupportedError.
package canvas

import (
	"slices"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// ChordUnlock is the task that joins the header of a chord on result backends
// that can't do it themselves.
const ChordUnlock = "celery.chord_unlock"

// Continuation is what is published because of how a task ended.
type Continuation struct {
	// Messages are in Celery's order.
	Messages []Outgoing
	// Children are the result tuples of what is published, for the task's own
	// result.
	Children []any
}

// Outgoing is a message to publish, and what its signature says about how.
type Outgoing struct {
	Message *protocol.Message
	// Serializer and Compression are empty where the signature leaves them to the
	// publisher.
	Serializer, Compression string
	// Transient asks for delivery mode 1.
	Transient bool
	// Properties are properties of the message that Celery has no name for.
	Properties map[string]any
}

// Publisher is the worker that publishes: Celery routes by its settings, those of
// the original producer don't travel.
type Publisher struct {
	// Routes are task_routes, DefaultQueue is where tasks go that none of them
	// names (task_default_queue).
	Routes       Routes
	DefaultQueue string
	// InheritPriority gives what is published the priority of the task it follows
	// (task_inherit_parent_priority).
	InheritPriority bool
	// Origin is the node name in the messages.
	Origin string
	// Timezone is the zone of ETAs made of a countdown.
	Timezone *time.Location
}

// Success is what follows a task that returned value, a wire value: its link
// callbacks, then the next step of its chain. It returns an *UnsupportedError
// where that has to be a chord, and an *protocol.InvalidTaskError for a signature
// that is none.
func (p *Publisher) Success(m *protocol.Message, value any, now time.Time) (Continuation, error) {
	if len(m.Callbacks) == 0 && len(m.Chain) == 0 {
		return Continuation{}, nil
	}
	s := p.sender(m, now)
	given := s.given()
	given["priority"] = nil // beats that of a group or chain, but not of a task
	if p.InheritPriority {
		given["priority"] = int64(m.Priority)
	}
	if err := s.callbacks(m.Callbacks, value, given); err != nil {
		return Continuation{}, err
	}
	if n := len(m.Chain); n > 0 {
		given["chain"] = values(m.Chain[:n-1])
		if err := s.send(m.Chain[n-1], []any{value}, given, "chain"); err != nil {
			return Continuation{}, err
		}
	}
	return s.made, nil
}

// Failure is what follows a task that failed: its errbacks, as one group, with the
// id of the failed task as their argument. Celery calls an errback inline where
// it is a plain Python function; every other is sent, and so are all of ours. The
// errors are those of Success.
func (p *Publisher) Failure(m *protocol.Message, now time.Time) (Continuation, error) {
	if len(m.Errbacks) == 0 {
		return Continuation{}, nil
	}
	s := p.sender(m, now)
	err := s.send(groupOf(m.Errbacks), []any{m.ID}, s.given(), "link_error")
	return s.made, err
}

// Check tells before a task runs whether what follows it can be published: running
// it and dropping the rest would lose work. The errors are those of Success.
func (p *Publisher) Check(m *protocol.Message) error {
	success, err := p.Success(m, nil, time.Time{})
	if err != nil {
		return err
	}
	failure, err := p.Failure(m, time.Time{})
	if err != nil {
		return err
	}
	for _, outgoing := range slices.Concat(success.Messages, failure.Messages) {
		if err := outgoing.check(); err != nil {
			return err
		}
	}
	return nil
}

// check tells whether the serializer and the compression are there.
func (o Outgoing) check() error {
	if _, _, _, err := protocol.Serialize(o.Serializer, nil); err != nil {
		return &UnsupportedError{What: "the serializer " + o.Serializer}
	}
	if o.Compression == "" {
		return nil
	}
	if _, _, err := protocol.Compress(o.Compression, nil); err != nil {
		return &UnsupportedError{What: "the compression " + o.Compression}
	}
	return nil
}

// UnsupportedError says that a message asks for something that this version can't
// do.
type UnsupportedError struct {
	// What is asked for, in Celery's words.
	What string
}

// Error names it.
func (e *UnsupportedError) Error() string { return "canvas: " + e.What + " is not supported yet" }
