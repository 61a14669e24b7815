package protocol

import (
	"errors"
	"fmt"
)

// ErrUnknownMessage is returned for a message that names no task, neither in
// its headers nor in its body. Celery logs "Received and deleted unknown
// message. Wrong destination?!?".
var ErrUnknownMessage = errors.New("protocol: unknown message: no task name in headers or body")

// LimitError says that something is larger than a limit allows. It stands
// inside the error of the operation that met the limit.
type LimitError struct {
	// What was measured, in plural: "bytes of body", "levels", "values".
	What string
	// Limit is the most that was allowed.
	Limit int
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("protocol: more than %d %s", e.Limit, e.What)
}

// EnvelopeError says that what came from the broker is not a kombu envelope.
// Such a message makes a Celery worker exit.
type EnvelopeError struct {
	Err error
}

// Error describes the flaw.
func (e *EnvelopeError) Error() string { return fmt.Sprintf("protocol: bad envelope: %v", e.Err) }

// Unwrap returns the cause.
func (e *EnvelopeError) Unwrap() error { return e.Err }

// DecodeError says that bytes could not be turned into values: a compressed or
// serialized body, or one document. It is kombu's DecodeError; Celery logs
// "Can't decode message body".
type DecodeError struct {
	// What was being decoded: "json", "application/x-gzip", ...
	What string
	Err  error
}

// Error describes the flaw.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("protocol: can't decode %s: %v", e.What, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// EncodeError says that a value has no form on the wire. It is kombu's
// EncodeError; Celery stores it as the result of a task whose return value
// can't be serialized.
type EncodeError struct {
	// Path leads to the value inside what was encoded, such as ".items[3]"; it is
	// empty for the value itself.
	Path string
	Err  error
}

// Error names the value and says why it can't be encoded.
func (e *EncodeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("protocol: can't encode: %v", e.Err)
	}
	return fmt.Sprintf("protocol: can't encode %s: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// encodeErrorf makes an EncodeError of the value itself.
func encodeErrorf(format string, args ...any) error {
	return &EncodeError{Err: fmt.Errorf(format, args...)}
}

// inPath puts a step before the path of an EncodeError.
func inPath(step string, err error) error {
	var e *EncodeError
	if !errors.As(err, &e) {
		return err
	}
	return &EncodeError{Path: step + e.Path, Err: e.Err}
}

// ContentDisallowedError says that a content type is not among those accepted,
// or is one that is never decoded. It is kombu's ContentDisallowed.
type ContentDisallowedError struct {
	// ContentType is the MIME type.
	ContentType string
	// Never is set for a type that is refused although it was accepted: pickle,
	// which runs code while it is decoded.
	Never bool
}

// Error is kombu's text.
func (e *ContentDisallowedError) Error() string {
	name := serializerName(e.ContentType)
	if name == "" {
		name = e.ContentType
	}
	if e.Never {
		return fmt.Sprintf("Refusing to deserialize content of type %s (%s): it is never decoded here", name, e.ContentType)
	}
	return fmt.Sprintf("Refusing to deserialize untrusted content of type %s (%s)", name, e.ContentType)
}

// UnknownTaskError is returned for a message whose task is not registered. The
// body has not been decoded, as in Celery. The fields are what it takes to store
// FAILURE NotRegistered and to send it to the caller; where the task is part of a
// chord, decode the message again without DecodeOptions.Known to count it.
type UnknownTaskError struct {
	Task, ID                  string
	RootID, ParentID, GroupID string
	ReplyTo, CorrelationID    string
}

// Error names the task and the id.
func (e *UnknownTaskError) Error() string {
	return fmt.Sprintf("protocol: received unregistered task of type %q (id %s)", e.Task, e.ID)
}

// InvalidTaskError says that a message is one of a task but breaks the
// protocol. It is Celery's InvalidTaskError, and stands also for the messages
// that make a Celery worker exit.
type InvalidTaskError struct {
	// Task and ID are set as far as they are known.
	Task, ID string
	// Reason is Celery's text where Celery has one.
	Reason string
}

// Error gives the reason.
func (e *InvalidTaskError) Error() string { return "protocol: invalid task message: " + e.Reason }

func invalidTaskf(format string, args ...any) *InvalidTaskError {
	return &InvalidTaskError{Reason: fmt.Sprintf(format, args...)}
}

// TypeError is an error of arguments in Python's words.
type TypeError struct {
	Message string
}

// Error is the message as Python words it.
func (e *TypeError) Error() string { return e.Message }
