package protocol

import (
	"errors"
	"fmt"
)

// DecodeSignature reads a canvas signature. Missing and null args, kwargs and
// options are empty. It returns an *InvalidTaskError for what is not one.
func DecodeSignature(v any) (Signature, error) {
	s, err := decodeSignature(v)
	if err != nil {
		return Signature{}, &InvalidTaskError{Reason: "invalid signature: " + err.Error()}
	}
	return s, nil
}

func decodeSignature(v any) (Signature, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return Signature{}, fmt.Errorf("a %s, not a mapping", pythonType(v))
	}
	r := fieldReader{fields: fields}
	s := Signature{
		Task:        r.text("task"),
		Args:        r.list("args"),
		Kwargs:      r.mapping("kwargs"),
		Options:     r.mapping("options"),
		SubtaskType: r.text("subtask_type"),
		Immutable:   r.flag("immutable"),
		ChordSize:   r.optionalNumber("chord_size"),
	}
	if r.err == nil && s.Task == "" {
		return Signature{}, errors.New("no task name")
	}
	return s, r.err
}

// Value is the form of the signature on the wire.
func (s Signature) Value() map[string]any {
	v := map[string]any{
		"task":         s.Task,
		"args":         orEmptyList(s.Args),
		"kwargs":       orEmptyMap(s.Kwargs),
		"options":      orEmptyMap(s.Options),
		"subtask_type": orNull(s.SubtaskType),
		"immutable":    s.Immutable,
	}
	if s.ChordSize != nil {
		v["chord_size"] = int64(*s.ChordSize)
	}
	return v
}

func decodeSignatures(v any) ([]Signature, error) {
	if v == nil {
		return nil, nil
	}
	// apply_async takes a single link, and so do some producers' messages.
	if one, ok := v.(map[string]any); ok {
		v = []any{one}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("a %s, not a list of signatures", pythonType(v))
	}
	signatures := make([]Signature, 0, len(list))
	for _, item := range list {
		s, err := decodeSignature(item)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, s)
	}
	return signatures, nil
}

// signatureValues is null where there are none, as Python sends it.
func signatureValues(signatures []Signature) any {
	if len(signatures) == 0 {
		return nil
	}
	list := make([]any, len(signatures))
	for i, s := range signatures {
		list[i] = s.Value()
	}
	return list
}

func orEmptyList(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

func orEmptyMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
