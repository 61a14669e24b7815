package protocol

import (
	"fmt"
	"time"
)

// isCeleryHeader tells whether Celery gives a header of protocol 2 a meaning. All
// others are custom headers.
func isCeleryHeader(name string) bool {
	switch name {
	case "lang", "task", "id", "shadow", "eta", "expires", "group", "group_index", "retries",
		"timelimit", "root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result",
		"replaced_task_nesting", "stamped_headers", "stamps", "compression", "redelivered":
		return true
	}
	return false
}

// customHeaders are the headers that are not Celery's own, nil if there are
// none.
func customHeaders(headers map[string]any) map[string]any {
	var custom map[string]any
	for name, value := range headers {
		if isCeleryHeader(name) {
			continue
		}
		if custom == nil {
			custom = map[string]any{}
		}
		custom[name] = value
	}
	return custom
}

// readHeaders reads Celery's own headers.
func (m *Message) readHeaders(headers map[string]any) error {
	id, err := taskID(headers)
	if err != nil {
		return err
	}
	if m.ETA, err = timeHeader("ETA", headers["eta"]); err != nil {
		return err
	}
	if m.Expires, err = timeHeader("expires", headers["expires"]); err != nil {
		return err
	}
	if m.TimeLimit, m.SoftTimeLimit, err = timeLimits(headers["timelimit"]); err != nil {
		return err
	}
	r := fieldReader{fields: headers}
	m.ID = id
	m.Task = r.text("task")
	m.RootID, m.ParentID, m.GroupID = r.text("root_id"), r.text("parent_id"), r.text("group")
	m.GroupIndex = r.optionalNumber("group_index")
	m.Retries = r.number("retries")
	m.IgnoreResult = r.optionalFlag("ignore_result")
	m.ReplacedTaskNesting = r.number("replaced_task_nesting")
	m.StampedHeaders, m.Stamps = r.texts("stamped_headers"), r.mapping("stamps")
	m.Shadow, m.Origin = r.text("shadow"), r.text("origin")
	m.ArgsRepr, m.KwargsRepr = r.text("argsrepr"), r.text("kwargsrepr")
	if r.err != nil {
		return invalidTaskf("%v", r.err)
	}
	return nil
}

// timeHeader reads eta or expires; name is Celery's word for it in the error.
func timeHeader(name string, v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	t, err := parseTime(v)
	if err != nil {
		return time.Time{}, invalidTaskf("invalid %s value %s: %v", name, Repr(v, 60), err)
	}
	return notZero(t), nil
}

// timeLimits reads [hard, soft], both in seconds. Celery's documentation has them
// the other way round.
func timeLimits(v any) (hard, soft time.Duration, err error) {
	list, ok := v.([]any)
	if v == nil || (ok && len(list) == 0) {
		return 0, 0, nil
	}
	if !ok || len(list) != 2 {
		return 0, 0, invalidTaskf("timelimit is %s, not [hard, soft]", Repr(v, 60))
	}
	hard, hardOK := secondsOf(list[0])
	soft, softOK := secondsOf(list[1])
	if !hardOK || !softOK {
		return 0, 0, invalidTaskf("timelimit is %s, not two numbers of seconds", Repr(v, 60))
	}
	return hard, soft, nil
}

// readEmbed reads the continuations; embed may be nil.
func (m *Message) readEmbed(embed map[string]any) error {
	for _, list := range [...]struct {
		name string
		into *[]Signature
	}{{"callbacks", &m.Callbacks}, {"errbacks", &m.Errbacks}, {"chain", &m.Chain}} {
		signatures, err := decodeSignatures(embed[list.name])
		if err != nil {
			return invalidTaskf("invalid signature in %s: %v", list.name, err)
		}
		*list.into = signatures
	}
	if embed["chord"] == nil {
		return nil
	}
	chord, err := decodeSignature(embed["chord"])
	if err != nil {
		return invalidTaskf("invalid signature in chord: %v", err)
	}
	m.Chord = &chord
	return nil
}

// Positional returns args as Python's *args would unpack them: the elements of a
// list, the keys of a map in sorted order, the characters of a string, the values
// of bytes. Anything else is the *TypeError that Python raises, which Celery
// stores as the task's failure.
func (m *Message) Positional() ([]any, error) {
	switch args := m.Args.(type) {
	case []any:
		return args, nil
	case map[string]any:
		keys := make([]any, 0, len(args))
		for _, key := range sortedKeys(args) {
			keys = append(keys, key)
		}
		return keys, nil
	case string:
		characters := make([]any, 0, len(args))
		for i := 0; i < len(args); {
			_, size := decodeRune(args[i:])
			characters = append(characters, args[i:i+size])
			i += size
		}
		return characters, nil
	case []byte:
		values := make([]any, 0, len(args))
		for _, b := range args {
			values = append(values, int64(b))
		}
		return values, nil
	}
	return nil, &TypeError{fmt.Sprintf("%s() argument after * must be an iterable, not %s", m.Task, pythonType(m.Args))}
}

// notZero moves a time that the zero time.Time stands for, which Message uses for
// "none".
func notZero(t time.Time) time.Time {
	if t.IsZero() {
		return t.Add(time.Microsecond)
	}
	return t
}

// groupIndexValue is null for none.
func groupIndexValue(index *int) any {
	if index == nil {
		return nil
	}
	return int64(*index)
}
