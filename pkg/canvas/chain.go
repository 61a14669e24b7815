package canvas

import (
	"maps"
	"slices"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// applyChain sends the first step with the others as its chain (chain.run). What
// the options say of a whole, its id, its group and its callbacks, is for the last
// step; link_error is for every one; the rest is for the first. A chain that was
// serialized has no args and is never immutable itself, its steps may be.
func (s *sender) applyChain(sig protocol.Signature, args []any, given options, path string) (applied, error) {
	merged := override(sig.Options, given)
	p, err := placeOf(merged)
	if err != nil {
		return applied{}, err
	}
	steps, err := steps(sig)
	if err != nil || len(steps) == 0 {
		return applied{}, err
	}
	for i := range steps {
		steps[i] = onError(steps[i], listOf(merged["link_error"]))
	}
	last := len(steps) - 1
	steps[last] = linked(steps[last], "link", listOf(merged["link"]))
	whole, err := s.freezeSteps(steps, p, path)
	if err != nil {
		return applied{}, err
	}

	rest := slices.Clone(steps[1:])
	slices.Reverse(rest)
	first := without(merged, "task_id", "root_id", "parent_id", "group_id", "group_index", "chord", "link", "link_error")
	first["chain"] = slices.Concat(listOf(merged["chain"]), values(rest))
	sent, err := s.apply(steps[0], args, first, at(path, 0))
	if last > 0 {
		sent.whole = whole
	}
	return sent, err
}

// steps are the steps of a chain. A chain in it is spliced, a group of one is its
// member, and an empty group is nothing where there are other steps.
func steps(sig protocol.Signature) ([]protocol.Signature, error) {
	tasks, err := tasksOf(sig)
	if err != nil {
		return nil, err
	}
	var all []protocol.Signature
	for _, task := range tasks {
		if task.SubtaskType == typeGroup {
			inner, err := tasksOf(task)
			switch {
			case err != nil:
				return nil, err
			case len(inner) == 0:
				continue
			case len(inner) == 1:
				task = inner[0]
			}
		}
		if task.SubtaskType != typeChain {
			all = append(all, task)
			continue
		}
		inner, err := steps(task)
		if err != nil {
			return nil, err
		}
		all = append(all, inner...)
	}
	return all, nil
}

// onError adds errbacks to a step: to every member of a group, and to the body of
// a chord.
func onError(sig protocol.Signature, errbacks []any) protocol.Signature {
	switch sig.SubtaskType {
	case typeGroup:
		tasks, err := tasksOf(sig)
		if err != nil {
			return sig // it is refused when it is sent
		}
		for i := range tasks {
			tasks[i] = onError(tasks[i], errbacks)
		}
		return withTasks(sig, tasks)
	case typeChord:
		body, err := protocol.DecodeSignature(sig.Kwargs["body"])
		if err != nil {
			return sig
		}
		sig.Kwargs = maps.Clone(sig.Kwargs)
		sig.Kwargs["body"] = onError(body, errbacks).Value()
		return sig
	}
	return linked(sig, "link_error", errbacks)
}

// linked adds callbacks to an option.
func linked(sig protocol.Signature, option string, callbacks []any) protocol.Signature {
	if len(callbacks) == 0 {
		return sig
	}
	o := underlay(sig.Options, nil)
	o[option] = slices.Concat(listOf(o[option]), callbacks)
	return withOptions(sig, o)
}
