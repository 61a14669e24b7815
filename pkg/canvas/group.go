package canvas

import (
	"github.com/lovage-project/lovage/pkg/protocol"
)

// applyGroup sends every member (group.apply_async). The id of the group is the
// option task_id. An empty group sends nothing.
func (s *sender) applyGroup(sig protocol.Signature, args []any, given options, path string) (applied, error) {
	merged := override(sig.Options, given)
	if len(listOf(merged["chain"])) > 0 {
		return applied{}, &UnsupportedError{What: "a group inside a chain (a chord)"}
	}
	id, err := s.idOf(merged, path)
	if err != nil {
		return applied{}, err
	}
	root, err := textOf(merged, "root_id")
	if err != nil {
		return applied{}, err
	}
	members, err := members(sig)
	if err != nil || len(members) == 0 {
		return applied{}, err
	}
	merged["group_id"] = id
	all := &result{id: id, group: true}
	for i, member := range members {
		whole, err := s.applyMember(member.sig, args, merged, place{root: root, group: id, index: &member.index}, at(path, i))
		if err != nil {
			return applied{}, err
		}
		all.members = append(all.members, whole)
	}
	if len(all.members) == 1 && all.members[0].group {
		all = all.members[0] // a chain that ends in a group, alone in its group
	}
	return applied{whole: all, child: all}, nil
}

func (s *sender) applyMember(sig protocol.Signature, args []any, merged options, p place, path string) (*result, error) {
	sig, whole, err := s.freeze(sig, p, path)
	if err != nil {
		return nil, err
	}
	given := without(merged, "task_id", "group_index", "chord", "add_to_parent")
	if given["chord"] = merged["chord"]; merged["chord"] == nil {
		given["chord"] = sig.Options["chord"]
	}
	_, err = s.apply(sig, args, given, path)
	return whole, err
}

// member is a member of a group with its index.
type member struct {
	sig   protocol.Signature
	index int
}

// members are those of a group. A group in it is dissolved, and its members count
// from 0 again, so an index is not unique, as in Celery. Empty chains are left
// out.
func members(sig protocol.Signature) ([]member, error) {
	tasks, err := tasksOf(sig)
	if err != nil {
		return nil, err
	}
	var all []member
	for i, task := range tasks {
		switch task.SubtaskType {
		case typeGroup:
			inner, err := members(task)
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
			continue
		case typeChain:
			steps, err := tasksOf(task)
			if err != nil {
				return nil, err
			}
			if len(steps) == 0 {
				continue
			}
		}
		all = append(all, member{sig: task, index: i})
	}
	return all, nil
}

// idOf is the option task_id, or a new id.
func (s *sender) idOf(o options, path string) (string, error) {
	id, err := textOf(o, "task_id")
	if id == "" {
		id = s.newID(path)
	}
	return id, err
}
