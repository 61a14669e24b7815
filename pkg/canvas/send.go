package canvas

import (
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// sender collects what one outcome of one task makes its worker publish.
type sender struct {
	*Publisher
	parent *protocol.Message
	now    time.Time
	made   Continuation
}

func (p *Publisher) sender(m *protocol.Message, now time.Time) *sender {
	return &sender{Publisher: p, parent: m, now: now}
}

// given are the options that everything published gets.
func (s *sender) given() options {
	return options{"parent_id": s.parent.ID, "root_id": s.root()}
}

func (s *sender) root() string {
	if s.parent.RootID == "" {
		return s.parent.ID
	}
	return s.parent.RootID
}

// callbacks sends link callbacks: a single one as it is, several groups each by
// itself, and all others together as one group.
func (s *sender) callbacks(callbacks []protocol.Signature, value any, given options) error {
	if len(callbacks) == 1 {
		return s.send(callbacks[0], []any{value}, given, "link")
	}
	var others []protocol.Signature
	for i, callback := range callbacks {
		if callback.SubtaskType != typeGroup {
			others = append(others, callback)
			continue
		}
		if err := s.send(callback, []any{value}, given, at("link", i)); err != nil {
			return err
		}
	}
	if len(others) == 0 {
		return nil
	}
	return s.send(groupOf(others), []any{value}, given, "links")
}

// send applies a signature and lists it among the children.
func (s *sender) send(sig protocol.Signature, args []any, given options, path string) error {
	a, err := s.apply(sig, args, given, path)
	if a.child != nil {
		s.made.Children = append(s.made.Children, a.child.tuple())
	}
	return err
}

// applied are the two results of a signature that was sent: the one that stands
// for all of it, and the one that Celery lists among the children. They differ for
// a chain: its last task and its first.
type applied struct{ whole, child *result }

// apply sends a signature (Signature.apply_async). path is its place in the
// continuation, of which the ids are made that no one has fixed yet.
func (s *sender) apply(sig protocol.Signature, args []any, given options, path string) (applied, error) {
	if err := checkNesting(path); err != nil {
		return applied{}, err
	}
	switch sig.SubtaskType {
	case "":
		return s.applyTask(sig, args, given, path)
	case typeGroup:
		return s.applyGroup(sig, args, given, path)
	case typeChain:
		return s.applyChain(sig, args, given, path)
	case typeChord:
		return applied{}, &UnsupportedError{What: "a chord as a continuation"}
	}
	return applied{}, &protocol.InvalidTaskError{Reason: "invalid signature: unknown subtask_type " + sig.SubtaskType}
}

func (s *sender) applyTask(sig protocol.Signature, args []any, given options, path string) (applied, error) {
	merged := merge(sig.Options, given)
	if merged["task_id"] == nil {
		merged["task_id"] = s.newID(path)
	}
	outgoing, inParent, err := s.message(withArgs(sig, args), merged)
	if err != nil {
		return applied{}, err
	}
	s.made.Messages = append(s.made.Messages, outgoing)
	sent := applied{whole: &result{id: outgoing.Message.ID}}
	if inParent {
		sent.child = sent.whole
	}
	return sent, nil
}

// idSpace is the namespace of the ids that are made here.
var idSpace = uuid.MustParse("8d1ac0a2-6a0c-4b8e-9a3f-0c1f7c0f5f11")

// newID is the id of a task that has none. It is made of the id of the task it
// follows and of its place, so that a task that is delivered twice publishes the
// same ids again and the duplicate can be told.
func (s *sender) newID(path string) string {
	return uuid.NewSHA1(idSpace, []byte(s.parent.ID+"\x00"+path)).String()
}
