package rayserve

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// field is one key of an object and its value, which is plain.
type field struct {
	name  string
	value any
}

// encodeObject writes an object with its keys in the order given, as json.dumps does.
func encodeObject(fields ...field) ([]byte, error) {
	out := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			out = append(out, ", "...)
		}
		value, err := protocol.EncodeJSON(f.value)
		if err != nil {
			return nil, inPath(f.name, err)
		}
		out = append(strconv.AppendQuote(out, f.name), ": "...)
		out = append(out, value...)
	}
	return append(out, '}'), nil
}

// advice is what to do about a value that has no form here.
const advice = "pass booleans, numbers, strings, lists, maps with string keys or structs of these"

// bytesAdvice is the same for bytes.
const bytesAdvice = "pass them as a string, base64 for example, or as a list of numbers"

// plain turns a Go value into one that JSON has a form for. path is what an error
// calls the value.
func plain(path string, v any) (any, error) {
	value, err := protocol.ToValue(v)
	if err != nil {
		return nil, inPath(path, withAdvice(err))
	}
	value, err = flat(value)
	return value, inPath(path, err)
}

// plainKwargs is plain for each keyword argument.
func plainKwargs(kwargs map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(kwargs))
	for name, v := range kwargs {
		value, err := plain("kwargs["+strconv.Quote(name)+"]", v)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// flat replaces what JSON has no form for in a wire value, which is the caller's own.
func flat(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			value, err := flat(item)
			if err != nil {
				return nil, inPath("["+strconv.Itoa(i)+"]", err)
			}
			v[i] = value
		}
	case map[string]any:
		for key, item := range v {
			value, err := flat(item)
			if err != nil {
				return nil, inPath("."+key, err)
			}
			v[key] = value
		}
	case []byte:
		return nil, &protocol.EncodeError{Err: fmt.Errorf("type %T has no form in JSON; %s", v, bytesAdvice)}
	case time.Time:
		return protocol.FormatTime(v), nil
	case protocol.NaiveDateTime:
		return strings.TrimSuffix(protocol.FormatTime(v.UTC()), "+00:00"), nil
	case protocol.Date:
		return fmt.Sprintf("%04d-%02d-%02d", v.Year, v.Month, v.Day), nil
	case protocol.TimeOfDay:
		return string(v), nil
	case protocol.Decimal:
		return string(v), nil
	case uuid.UUID:
		return v.String(), nil
	}
	return v, nil
}

// inPath puts a step before the path of an EncodeError.
func inPath(step string, err error) error {
	var e *protocol.EncodeError
	if !errors.As(err, &e) {
		return err
	}
	return &protocol.EncodeError{Path: step + e.Path, Err: e.Err}
}

// withAdvice says behind an EncodeError what to do.
func withAdvice(err error) error {
	var e *protocol.EncodeError
	if !errors.As(err, &e) {
		return err
	}
	return &protocol.EncodeError{Path: e.Path, Err: fmt.Errorf("%w; %s", e.Err, advice)}
}
