package rayserve

import (
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// decodeObject reads a body that must be one JSON object.
func decodeObject(body []byte, limits protocol.Limits) (map[string]any, *MalformedError) {
	if len(body) > limits.Body {
		return nil, &MalformedError{
			Reason: "too large",
			Err:    &protocol.DecodeError{What: "json", Err: &protocol.LimitError{What: "bytes of body", Limit: limits.Body}},
		}
	}
	if !utf8.Valid(body) {
		return nil, &MalformedError{Reason: "not UTF-8"}
	}
	v, err := protocol.DecodePlainJSON(body, limits)
	var limit *protocol.LimitError
	switch {
	case errors.As(err, &limit):
		return nil, &MalformedError{Reason: "too large", Err: err}
	case err != nil:
		return nil, &MalformedError{Reason: "not JSON", Err: err}
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, &MalformedError{Reason: kind(v) + ", not an object"}
	}
	return fields, nil
}

// call is what a task and a query have in common: what to run, with what.
type call struct {
	name   string
	args   []any
	kwargs map[string]any
}

// readCall reads task_name, args and kwargs. Null and missing arguments are none. The
// name is set too where the arguments are bad.
func readCall(fields map[string]any) (c call, reason string) {
	c.name, _ = fields["task_name"].(string)
	if c.name == "" {
		return c, "no task_name"
	}
	switch args := fields["args"].(type) {
	case nil:
		c.args = []any{}
	case []any:
		c.args = args
	default:
		return c, fmt.Sprintf("args are %s, not a list", kind(args))
	}
	switch kwargs := fields["kwargs"].(type) {
	case nil:
		c.kwargs = map[string]any{}
	case map[string]any:
		c.kwargs = kwargs
	default:
		return c, fmt.Sprintf("kwargs are %s, not an object", kind(kwargs))
	}
	return c, ""
}

// text is a field's string, "" where it is something else or missing.
func text(fields map[string]any, name string) string {
	s, _ := fields[name].(string)
	return s
}

// kind names what JSON had.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, *big.Int, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
