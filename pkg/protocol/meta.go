package protocol

import (
	"errors"
	"maps"
	"strings"
	"time"
)

// String is Python's repr of the exception: ValueError('too small').
func (e Exception) String() string {
	args := ReprArgs(e.Args)
	if len(e.Args) == 1 { // not a tuple, so no comma behind a single argument
		args = strings.TrimSuffix(args, ",)") + ")"
	}
	return e.Type[strings.LastIndexByte(e.Type, '.')+1:] + args
}

// Value is the form of the exception on the wire. An argument that has no form
// there becomes its repr, as in Celery.
func (e Exception) Value() map[string]any {
	return e.value(func(v any) error {
		_, err := ToValue(v)
		return err
	})
}

// value replaces the arguments that encodable refuses.
func (e Exception) value(encodable func(any) error) map[string]any {
	args := make([]any, len(e.Args))
	for i, arg := range e.Args {
		if args[i] = arg; encodable(arg) != nil {
			args[i] = Repr(arg, 0)
		}
	}
	return map[string]any{"exc_type": e.Type, "exc_message": args, "exc_module": orNull(e.Module)}
}

// DecodeException reads an exception in a result; ok is false if v is not one. A
// message that is not a list is the only argument, as it is for Celery.
func DecodeException(v any) (e Exception, ok bool) {
	fields, _ := v.(map[string]any)
	name, ok := fields["exc_type"].(string)
	if !ok {
		return Exception{}, false
	}
	e.Type = name
	e.Module, _ = fields["exc_module"].(string)
	switch message := fields["exc_message"].(type) {
	case nil:
	case []any:
		e.Args = message
	default:
		e.Args = []any{message}
	}
	return e, true
}

// Value is the form of the meta on the wire: Celery's keys, then those of Extra,
// which can't replace them.
func (m Meta) Value() map[string]any { return m.value(m.resultValue(Exception.Value)) }

func (m Meta) value(result any) map[string]any {
	v := make(map[string]any, len(m.Extra)+8)
	maps.Copy(v, m.Extra)
	v["task_id"] = m.TaskID
	v["status"] = string(m.Status)
	v["result"] = result
	v["traceback"] = orNull(m.Traceback)
	v["children"] = orEmptyList(m.Children)
	v["date_done"] = timeValue(m.DateDone)
	if m.GroupID != "" {
		v["group_id"] = m.GroupID
	}
	if m.ParentID != "" {
		v["parent_id"] = m.ParentID
	}
	return v
}

// resultValue writes an exception with the function given.
func (m Meta) resultValue(write func(Exception) map[string]any) any {
	switch result := m.Result.(type) {
	case Exception:
		return write(result)
	case *Exception:
		if result != nil {
			return write(*result)
		}
		return nil
	}
	return m.Result
}

// EncodeMeta serializes a meta for a result backend. An argument of an exception
// that this serializer has no form for becomes its repr; a result that it has
// none for is an *EncodeError, for which Celery stores a FAILURE instead.
func EncodeMeta(serializer string, m Meta) (body []byte, contentType, contentEncoding string, err error) {
	result := m.resultValue(func(e Exception) map[string]any {
		return e.value(func(v any) error {
			_, _, _, err := Serialize(serializer, v)
			return err
		})
	})
	return Serialize(serializer, m.value(result))
}

// DecodeMeta reads a meta written as JSON. It returns a *DecodeError.
func DecodeMeta(body []byte) (Meta, error) {
	v, err := DecodeJSON(body, DefaultLimits())
	if err != nil {
		return Meta{}, err
	}
	return MetaOf(v)
}

// MetaOf reads a meta that a serializer has decoded. The result of FAILURE,
// REVOKED and RETRY becomes an Exception if it has the form of one. It returns a
// *DecodeError.
func MetaOf(v any) (Meta, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return Meta{}, &DecodeError{What: "result meta", Err: errors.New("a " + pythonType(v) + ", not a mapping")}
	}
	r := fieldReader{fields: fields}
	m := Meta{
		TaskID:    r.text("task_id"),
		Status:    State(r.text("status")),
		Traceback: r.text("traceback"),
		Children:  r.list("children"),
		DateDone:  r.time("date_done"),
		GroupID:   r.text("group_id"),
		ParentID:  r.text("parent_id"),
		Result:    fields["result"],
	}
	if m.Status == "" {
		r.fail("status", "a state")
	}
	if r.err != nil {
		return Meta{}, &DecodeError{What: "result meta", Err: r.err}
	}
	if m.Status == StateFailure || m.Status == StateRevoked || m.Status == StateRetry {
		if e, ok := DecodeException(m.Result); ok {
			m.Result = e
		}
	}
	m.Extra = extraOf(fields)
	return m, nil
}

func (r *fieldReader) time(name string) time.Time {
	if r.fields[name] == nil {
		return time.Time{}
	}
	t, err := ParseTime(r.fields[name])
	if err != nil {
		r.fail(name, "a time")
	}
	return t
}

// extraOf are the keys that Meta has no field for, nil if there are none.
func extraOf(fields map[string]any) map[string]any {
	extra := maps.Clone(fields)
	for _, name := range []string{"task_id", "status", "result", "traceback", "children", "date_done", "group_id", "parent_id"} {
		delete(extra, name)
	}
	if len(extra) == 0 {
		return nil
	}
	return extra
}
