package canvas

import (
	"slices"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// Step is a step of a chain that never runs because one before it failed.
type Step struct {
	// ID is its task id, GroupID its group, "" for none.
	ID, GroupID string
}

// Rest lists the steps behind a task in its chain that have an id, the last one
// first: the failure of the task is theirs too, so that whoever waits for the
// chain's result gets it. A chord is done when its body is, so the body's id
// counts as well.
func Rest(m *protocol.Message) []Step {
	return rest(m.Chain)
}

func rest(pending []protocol.Signature) []Step {
	var found []Step
	for pending = slices.Clone(pending); len(pending) > 0; pending = pending[1:] {
		sig := pending[0]
		step := Step{}
		step.ID, _ = sig.Options["task_id"].(string)
		step.GroupID, _ = sig.Options["group_id"].(string)
		if step.ID != "" {
			found = append(found, step)
		}
		if sig.SubtaskType != typeChord {
			continue
		}
		if body, err := protocol.DecodeSignature(sig.Kwargs["body"]); err == nil {
			pending = append(pending, body)
		}
	}
	return found
}

// Joined lists what waits for the chord that a chord_unlock message joins: the
// body of the chord. It is empty where the message is none, or has no such
// argument.
func Joined(m *protocol.Message) []Step {
	args, _ := m.Args.([]any)
	if m.Task != ChordUnlock || len(args) < 2 {
		return nil
	}
	body, err := protocol.DecodeSignature(args[1])
	if err != nil {
		return nil
	}
	if tasks, err := tasksOf(body); err == nil && body.SubtaskType == typeChain {
		slices.Reverse(tasks)
		return rest(tasks)
	}
	return rest([]protocol.Signature{body})
}
