package canvas

import (
	"maps"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// place is where a signature stands: what freezing it fixes in its options.
type place struct {
	// id is for a signature that has none; "" makes one.
	id, root, group string
	index           *int
	chord           any
}

// placeOf reads the place that a chain passes on to its last step.
func placeOf(o options) (p place, err error) {
	for name, into := range map[string]*string{"task_id": &p.id, "root_id": &p.root, "group_id": &p.group} {
		if *into, err = textOf(o, name); err != nil {
			return place{}, err
		}
	}
	if index, ok := o["group_index"].(int64); ok {
		n := int(index)
		p.index = &n
	}
	p.chord = o["chord"]
	return p, nil
}

// freeze fixes the ids of a signature, so that its result is known before it is
// sent (Signature.freeze). A chord is left to the worker that sends it; its result
// is the one of its body, nil where that has no id yet.
func (s *sender) freeze(sig protocol.Signature, p place, path string) (protocol.Signature, *result, error) {
	if err := checkNesting(path); err != nil {
		return sig, nil, err
	}
	switch sig.SubtaskType {
	case typeGroup:
		return s.freezeGroup(sig, p, path)
	case typeChain:
		steps, err := steps(sig)
		if err != nil {
			return sig, nil, err
		}
		whole, err := s.freezeSteps(steps, p, path)
		if whole != nil {
			sig = withOptions(sig, underlay(sig.Options, options{"task_id": whole.id}))
		}
		return withTasks(sig, steps), whole, err
	case typeChord:
		return sig, nil, nil
	}
	o := s.placed(sig.Options, p)
	id, err := s.idOf(o, path)
	o["task_id"] = id
	return withOptions(sig, o), &result{id: id}, err
}

// placed are the options with the place in them.
func (s *sender) placed(own options, p place) options {
	o := options{}
	maps.Copy(o, own)
	if o["task_id"] == nil && p.id != "" {
		o["task_id"] = p.id
	}
	if p.root != "" {
		o["root_id"] = p.root
	}
	if o["group_id"] == nil && p.group != "" {
		o["group_id"] = p.group
	}
	if p.chord != nil {
		o["chord"] = p.chord
	}
	if p.index != nil {
		o["group_index"] = int64(*p.index)
	}
	return o
}

// freezeGroup: the id of a chain is not for a group at its end, and the members of
// groups in the group count on.
func (s *sender) freezeGroup(sig protocol.Signature, p place, path string) (protocol.Signature, *result, error) {
	p.id = ""
	o := s.placed(sig.Options, p)
	if own, fixed := sig.Options["root_id"]; fixed {
		o["root_id"] = own // also null
	}
	id, err := s.idOf(o, path)
	if err != nil {
		return sig, nil, err
	}
	root, err := textOf(o, "root_id")
	if err != nil {
		return sig, nil, err
	}
	o["task_id"] = id
	members, err := members(sig)
	if err != nil {
		return sig, nil, err
	}
	all := &result{id: id, group: true}
	frozen := make([]protocol.Signature, len(members))
	for i, member := range members {
		var whole *result
		frozen[i], whole, err = s.freeze(member.sig, place{root: root, group: p.group, index: &i, chord: p.chord}, at(path, i))
		if err != nil {
			return sig, nil, err
		}
		if whole != nil {
			all.members = append(all.members, whole)
		}
	}
	return withTasks(withOptions(sig, o), frozen), all, nil
}

// freezeSteps freezes the steps of a chain in place and returns the result of the
// last, whose parents are those before it. Only the last one stands in the chain's
// group and chord.
func (s *sender) freezeSteps(steps []protocol.Signature, p place, path string) (*result, error) {
	var last *result
	for i, step := range steps {
		where := place{root: p.root}
		if i == len(steps)-1 {
			where = p
		} else if step.SubtaskType == typeGroup {
			return nil, &UnsupportedError{What: "a group inside a chain (a chord)"}
		}
		frozen, whole, err := s.freeze(step, where, at(path, i))
		if err != nil {
			return nil, err
		}
		steps[i] = frozen
		if whole != nil {
			whole.parent = last
			last = whole
		}
	}
	return last, nil
}
