package canvas

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// The values of subtask_type.
const (
	typeChain = "chain"
	typeGroup = "group"
	typeChord = "chord"
)

// options are those of a signature, as decoded.
type options = map[string]any

// merge is Signature._merge for options: the given ones win, except the group id,
// the stamps and their names that the signature has itself. Null ones are as if
// they were not given.
func merge(own, given options) options {
	merged := options{}
	maps.Copy(merged, own)
	stamps, _ := own["stamped_headers"].([]any)
	for name, value := range given {
		if _, has := own[name]; value == nil || has && fixed(name, stamps) {
			continue
		}
		merged[name] = value
	}
	return merged
}

func fixed(name string, stamps []any) bool {
	return name == "group_id" || name == "stamped_headers" || slices.Contains(stamps, any(name))
}

// override is how groups and chains merge: given options win even where they are
// null. A fixed group id stays.
func override(own, given options) options {
	merged := options{}
	maps.Copy(merged, own)
	for name, value := range given {
		if _, has := own[name]; !has || !fixed(name, nil) {
			merged[name] = value
		}
	}
	return merged
}

// underlay gives options where over has none or null.
func underlay(under, over options) options {
	merged := options{}
	maps.Copy(merged, under)
	for name, value := range over {
		if value != nil || merged[name] == nil {
			merged[name] = value
		}
	}
	return merged
}

// without is a copy without some options.
func without(o options, names ...string) options {
	rest := maps.Clone(o)
	maps.DeleteFunc(rest, func(name string, _ any) bool { return slices.Contains(names, name) })
	return rest
}

// textOf is an option that has to be a text, "" where it is missing or null.
func textOf(o options, name string) (string, error) {
	text, ok := o[name].(string)
	if !ok && o[name] != nil {
		return "", &protocol.InvalidTaskError{
			Reason: fmt.Sprintf("invalid option of a signature: %s is %s, not a string", name, protocol.Repr(o[name], 60)),
		}
	}
	return text, nil
}

// listOf is an option that is one value or a list of them.
func listOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// tasksOf are the members of a group or chain.
func tasksOf(sig protocol.Signature) ([]protocol.Signature, error) {
	list, ok := sig.Kwargs["tasks"].([]any)
	if !ok {
		return nil, &protocol.InvalidTaskError{Reason: "invalid signature: a " + sig.SubtaskType + " without tasks"}
	}
	tasks := make([]protocol.Signature, 0, len(list))
	for _, item := range list {
		task, err := protocol.DecodeSignature(item)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// groupOf is a new group.
func groupOf(tasks []protocol.Signature) protocol.Signature {
	return protocol.Signature{
		Task: "celery.group", SubtaskType: typeGroup, Kwargs: map[string]any{"tasks": values(tasks)},
	}
}

func values(signatures []protocol.Signature) []any {
	list := make([]any, len(signatures))
	for i, sig := range signatures {
		list[i] = sig.Value()
	}
	return list
}

// withArgs prepends partial arguments, which an immutable signature doesn't take.
func withArgs(sig protocol.Signature, args []any) protocol.Signature {
	if !sig.Immutable && len(args) > 0 {
		sig.Args = slices.Concat(args, sig.Args)
	}
	return sig
}

// withOptions is the signature with other options; the signature that was decoded
// stays as it is.
func withOptions(sig protocol.Signature, o options) protocol.Signature {
	sig.Options = o
	return sig
}

// withTasks is a group or chain with other members.
func withTasks(sig protocol.Signature, tasks []protocol.Signature) protocol.Signature {
	sig.Kwargs = maps.Clone(sig.Kwargs)
	sig.Kwargs["tasks"] = values(tasks)
	return sig
}
