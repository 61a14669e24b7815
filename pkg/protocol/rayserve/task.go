package rayserve

import (
	"errors"
	"fmt"

	"github.com/lovage-project/lovage/pkg/protocol"
)

const (
	// maxID is as long as a queue's name may be, and so a result's.
	maxID = 255
	// maxTime is longer than any form of a time.
	maxTime = 64
)

// errNoName is what the adapter's producers refuse too.
var errNoName = errors.New("rayserve: the task has no name")

// Task is the message that asks for a task to be run.
type Task struct {
	// ID is the task's id, a UUID from the adapter's producers. A task without one can
	// be run, but nobody can read its result.
	ID string
	// Name is the name of the handler.
	Name string
	// Args and Kwargs are the arguments. EncodeTask takes any Go values; DecodeTask
	// gives those of package protocol, and neither is nil then.
	Args   []any
	Kwargs map[string]any
	// CreatedAt is when the producer made it, as it was written: ISO 8601 in UTC, or ""
	// if it is not a string, or longer than a time. Results repeat it.
	CreatedAt string
}

// EncodeTask writes the body of a task's message. It returns a *protocol.EncodeError
// for a value that JSON has no form for, whose path begins at args or kwargs, such as
// `args[2].weights` or `kwargs["x"]`, and another error where the name is empty.
func EncodeTask(t Task) ([]byte, error) {
	c, err := encodeCall(t.Name, t.Args, t.Kwargs)
	if err != nil {
		return nil, err
	}
	fields := append([]field{{"task_id", t.ID}}, c...)
	return encodeObject(append(fields, field{"created_at", t.CreatedAt})...)
}

// DecodeTask reads the body of a task's message. Null and missing arguments are none.
// Every error is a *MalformedError: for what is not UTF-8, not JSON, not an object,
// beyond the limits (Body, Depth, Items), has no task_name, a task_id that is not a
// string or longer than 255 bytes, args that are not a list, or kwargs that are not an object.
func DecodeTask(body []byte, limits protocol.Limits) (*Task, error) {
	fields, malformed := decodeObject(body, limits)
	if malformed != nil {
		return nil, malformed
	}
	t := &Task{ID: text(fields, "task_id"), CreatedAt: text(fields, "created_at")}
	c, reason := readCall(fields)
	if id := fields["task_id"]; reason == "" && id != nil && t.ID == "" && id != "" {
		reason = "task_id is " + kind(id) + ", not a string"
	}
	if len(t.ID) > maxID {
		reason = fmt.Sprintf("task_id is %d bytes long, at most %d can be the name of a result's queue", len(t.ID), maxID)
		t.ID = ""
	}
	if reason != "" {
		return nil, &MalformedError{Reason: reason, ID: t.ID, Name: c.name}
	}
	if len(t.CreatedAt) > maxTime {
		t.CreatedAt = ""
	}
	t.Name, t.Args, t.Kwargs = c.name, c.args, c.kwargs
	return t, nil
}

// encodeCall is what a task and a query have in common.
func encodeCall(name string, args []any, kwargs map[string]any) ([]field, error) {
	if name == "" {
		return nil, errNoName
	}
	plainArgs, err := plain("args", args)
	if err != nil {
		return nil, err
	}
	named, err := plainKwargs(kwargs)
	if err != nil {
		return nil, err
	}
	return []field{{"task_name", name}, {"args", plainArgs}, {"kwargs", named}}, nil
}
