package rayserve

import (
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// Keys of protocol.Meta.Extra that a result's record has a place for. Both hold
// strings.
const (
	// ExtraCreatedAt is when the task was made, as its producer wrote it.
	ExtraCreatedAt = "created_at"
	// ExtraError is the record's error. Where it is missing, a FAILURE's is made of the
	// exception in Meta.Result.
	ExtraError = "error"
)

// EncodeResult writes the record of a task's state. Both times are always there, as
// from the adapter: completed_at is Meta.DateDone, or now, and created_at is now too
// where the task's is not known. An exception is written as the record's error,
// ErrorText, and the result is null then. A result that JSON has no form for is a
// *protocol.EncodeError.
func EncodeResult(m protocol.Meta, now time.Time) ([]byte, error) {
	completed := m.DateDone
	if completed.IsZero() {
		completed = now
	}
	created, _ := m.Extra[ExtraCreatedAt].(string)
	if created == "" {
		created = protocol.FormatTime(now.UTC())
	}
	exception, failed := exceptionOf(m.Result)
	var result any
	if !failed {
		var err error
		if result, err = plain("result", m.Result); err != nil {
			return nil, err
		}
	}
	fields := []field{
		{"task_id", m.TaskID},
		{"status", string(StatusOf(m.Status))},
		{"result", result},
		{"created_at", created},
		{"completed_at", protocol.FormatTime(completed.UTC())},
	}
	message, explicit := m.Extra[ExtraError].(string)
	if !explicit && m.Status == protocol.StateFailure {
		message = ErrorText(exception)
	}
	if explicit || m.Status == protocol.StateFailure {
		fields = append(fields, field{"error", message})
	}
	return encodeObject(fields...)
}

// exceptionOf is the exception that a meta has instead of a result.
func exceptionOf(result any) (e protocol.Exception, ok bool) {
	switch result := result.(type) {
	case protocol.Exception:
		return result, true
	case *protocol.Exception:
		if result != nil {
			return *result, true
		}
	}
	return protocol.Exception{}, false
}

// ErrorText is how the adapter writes an exception: its class's name, without the
// module, and what Python's str makes of it.
func ErrorText(e protocol.Exception) string {
	name := e.Type[strings.LastIndexByte(e.Type, '.')+1:]
	if name == "" {
		name = defaultType
	}
	return name + ": " + str(e.Args)
}

// defaultType stands for an exception whose type is not known.
const defaultType = "Exception"

// str is Python's str of an exception with these arguments.
func str(args []any) string {
	switch len(args) {
	case 0:
		return ""
	case 1:
		if text, ok := args[0].(string); ok {
			return text
		}
		return protocol.Repr(args[0], 0)
	default:
		return protocol.ReprArgs(args)
	}
}

// DecodeResult reads the record of a task's state. The exception of a FAILURE has the
// type that its error begins with, or else is an Exception with all of the text.
// Meta.Extra has created_at and error where the record has them, Meta.DateDone
// completed_at of a task that has ended. Every error is a *MalformedError: as those of
// DecodeResponse, and for a record without task_id or status.
func DecodeResult(body []byte, limits protocol.Limits) (protocol.Meta, error) {
	fields, malformed := decodeObject(body, limits)
	if malformed != nil {
		return protocol.Meta{}, malformed
	}
	m := protocol.Meta{TaskID: text(fields, "task_id"), Status: Status(text(fields, "status")).State(), Result: fields["result"]}
	switch {
	case m.TaskID == "":
		return protocol.Meta{}, &MalformedError{Reason: "no task_id"}
	case m.Status == "":
		return protocol.Meta{}, &MalformedError{Reason: "no status", ID: m.TaskID}
	}
	if m.Status.Ready() {
		// A time that can't be read is no reason to lose a result.
		m.DateDone, _ = protocol.ParseTime(fields["completed_at"])
	}
	for _, name := range []string{ExtraCreatedAt, ExtraError} {
		if value, ok := fields[name].(string); ok {
			if m.Extra == nil {
				m.Extra = make(map[string]any, 2)
			}
			m.Extra[name] = value
		}
	}
	if message, ok := m.Extra[ExtraError].(string); ok && m.Status == protocol.StateFailure && m.Result == nil {
		m.Result = ParseError(message)
	}
	return m, nil
}

// ParseError is the exception that an error text tells of: the reverse of ErrorText.
func ParseError(text string) protocol.Exception {
	name, message, found := strings.Cut(text, ": ")
	if !found || !isClassName(name) {
		return protocol.Exception{Type: defaultType, Args: []any{text}}
	}
	return protocol.Exception{Type: name, Args: []any{message}}
}

// isClassName tells whether text can be the name of a Python class; others than ASCII
// names don't matter here.
func isClassName(text string) bool {
	for i, c := range text {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
