package tasks

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// DeterministicID returns a task id that is the same for every call with the same
// name and args, in every program and version, for publishers that want a second
// sending of the same call to have the id of the first. It is the UUID of version 5,
// in the namespace of object ids, of the JSON text of [name, args…]; docs/idempotency.md
// has the Python function that returns the same.
//
// args are what JSON has a form for, or what protocol.ToValue makes that of: an int
// and a float of the same value differ, the order of a map's keys doesn't matter.
// Keyword arguments are a map. What Python's json module doesn't take is refused
// with an error that names it: times, decimals, bytes, UUIDs (use their text), NaN
// and infinities, and also strings that aren't UTF-8.
func DeterministicID(name string, args ...any) (string, error) {
	if name == "" {
		return "", errors.New("tasks: deterministic id: the task's name is empty")
	}
	call := make([]any, 0, len(args)+1)
	call = append(call, name)
	for i, arg := range args {
		value, err := protocol.ToValue(arg)
		if err == nil {
			err = plainJSON(value)
		}
		if err != nil {
			return "", fmt.Errorf("tasks: deterministic id of %s: argument %d: %w", name, i, err)
		}
		call = append(call, value)
	}
	text, err := protocol.EncodeJSON(call)
	if err != nil {
		return "", fmt.Errorf("tasks: deterministic id of %s: %w", name, err)
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, text).String(), nil
}

// plainJSON refuses values that Python's json module doesn't write, or not as we do.
func plainJSON(v any) error {
	switch v := v.(type) {
	case nil, bool, int64, *big.Int:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v has no form in JSON", v)
		}
		return nil
	case string:
		return validText(v)
	case []any:
		for i, item := range v {
			if err := plainJSON(item); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	case map[string]any:
		for key, item := range v {
			if err := errors.Join(validText(key), plainJSON(item)); err != nil {
				return fmt.Errorf("[%s]: %w", strconv.Quote(key), err)
			}
		}
		return nil
	default:
		return fmt.Errorf("a %T has no form in JSON: use its text", v)
	}
}

func validText(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%.40q is not UTF-8", text)
	}
	return nil
}
