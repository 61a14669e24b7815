package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DecodeOptions say what a message may be.
type DecodeOptions struct {
	// Accept is the set of content types to decode.
	Accept Accept
	// Limits bound the body.
	Limits Limits
	// Known tells whether a task is registered; nil takes every task for known.
	Known func(task string) bool
}

// DecodeMessage reads the task message in an envelope. The steps and their order
// are Celery's: decompress, find the task's name, look it up, decode the body,
// tell the protocol by it, read the headers.
//
// It returns ErrUnknownMessage, an *UnknownTaskError, a *DecodeError, an
// *InvalidTaskError, or a *ContentDisallowedError, which Celery treats as an
// invalid task. Where the headers do not name the task, a body of a type that is
// not accepted is a *DecodeError that wraps a *ContentDisallowedError: look for
// the former first.
func DecodeMessage(env *Envelope, o DecodeOptions) (*Message, error) {
	d := messageDecoder{env: env, options: o}
	if err := d.decompress(); err != nil {
		return nil, err
	}
	task, inHeaders := env.Headers["task"]
	if !inHeaders {
		var err error
		if task, err = d.taskInBody(); err != nil {
			return nil, err
		}
	}
	m, err := d.message(task, inHeaders)
	if err != nil {
		return nil, d.identify(err)
	}
	return m, nil
}

// messageDecoder holds what the steps hand on.
type messageDecoder struct {
	env         *Envelope
	options     DecodeOptions
	compression string
	body        []byte
	// payload is the decoded body of a message that has no task in its headers.
	payload map[string]any
}

// identify adds the task and the id to an error that has room for them.
func (d *messageDecoder) identify(err error) error {
	var invalid *InvalidTaskError
	if !errors.As(err, &invalid) {
		return err
	}
	for _, fields := range []map[string]any{d.env.Headers, d.payload} {
		if task, ok := fields["task"].(string); ok && invalid.Task == "" {
			invalid.Task = task
		}
		if id, ok := fields["id"].(string); ok && invalid.ID == "" {
			invalid.ID = id
		}
	}
	return invalid
}

func (d *messageDecoder) decompress() error {
	d.body = d.env.Body
	header, ok := d.env.Headers["compression"]
	if !ok || header == nil || header == "" {
		return nil
	}
	if d.compression, ok = header.(string); !ok {
		return &DecodeError{What: "body", Err: fmt.Errorf("compression is a %s", pythonType(header))}
	}
	body, err := Decompress(d.compression, d.body, d.options.Limits.Body)
	d.body = body
	return err
}

// taskInBody finds the name in the body of a protocol 1 message. A body that may
// not be looked into counts as one that can't be decoded, as it does for Celery.
func (d *messageDecoder) taskInBody() (any, error) {
	payload, err := d.deserialize()
	var disallowed *ContentDisallowedError
	if errors.As(err, &disallowed) {
		return nil, &DecodeError{What: "body", Err: err}
	}
	if err != nil {
		return nil, err
	}
	fields, ok := payload.(map[string]any)
	if !ok {
		return nil, ErrUnknownMessage
	}
	task, ok := fields["task"]
	if !ok {
		return nil, ErrUnknownMessage
	}
	d.payload = fields
	return task, nil
}

func (d *messageDecoder) deserialize() (any, error) {
	return Deserialize(d.body, d.env.ContentType, d.env.ContentEncoding, d.options.Accept, d.options.Limits)
}

func (d *messageDecoder) message(task any, inHeaders bool) (*Message, error) {
	name, ok := task.(string)
	if !ok || name == "" {
		return nil, invalidTaskf("the task name is %s", Repr(task, 60))
	}
	if d.options.Known != nil && !d.options.Known(name) {
		return nil, d.unknownTask(name)
	}
	if !inHeaders {
		return d.protocol1(d.payload)
	}
	payload, err := d.deserialize()
	if err != nil {
		return nil, err
	}
	hasArgs, err := containsArgs(payload)
	switch {
	case err != nil:
		return nil, err
	case !hasArgs:
		return d.protocol2(payload)
	}
	body, ok := payload.(map[string]any)
	if !ok {
		return nil, &InvalidTaskError{Reason: kwargsReason}
	}
	d.payload = body
	return d.protocol1(body)
}

// unknownTask makes the error from the headers, or from the body of a protocol 1
// message. Without an id nothing could be stored for the task.
func (d *messageDecoder) unknownTask(name string) error {
	fields := d.env.Headers
	if _, ok := fields["id"]; !ok && d.payload != nil {
		fields = d.payload
	}
	r := fieldReader{fields: fields}
	id, err := taskID(fields)
	if err != nil {
		return err
	}
	return &UnknownTaskError{
		Task: name, ID: id,
		RootID: r.text("root_id"), ParentID: r.text("parent_id"), GroupID: r.text("group"),
		ReplyTo: d.env.Properties.ReplyTo, CorrelationID: d.env.Properties.CorrelationID,
	}
}

func taskID(fields map[string]any) (string, error) {
	id, ok := fields["id"].(string)
	if !ok || id == "" {
		return "", invalidTaskf("the task id is %s", Repr(fields["id"], 60))
	}
	return id, nil
}

// kwargsReason is Celery's text.
const kwargsReason = "Task keyword arguments must be a mapping"

// containsArgs is Python's `"args" in payload`, by which Celery tells the
// protocols apart: a key of a map, an element of a list, a part of a string.
func containsArgs(payload any) (bool, error) {
	switch v := payload.(type) {
	case map[string]any:
		_, ok := v["args"]
		return ok, nil
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return item == any("args") }), nil
	case string:
		return strings.Contains(v, "args"), nil
	case []byte:
		if len(v) == 0 {
			return false, invalidTaskf("the body is empty")
		}
	}
	return false, invalidTaskf("the body is a %s, not a list of args, kwargs and embed", pythonType(payload))
}

// protocol2 reads a body of three items; all else is in the headers.
func (d *messageDecoder) protocol2(payload any) (*Message, error) {
	args, kwargs, embed, err := partsOf(payload)
	if err != nil {
		return nil, err
	}
	m := d.newMessage(Protocol2)
	m.Args, m.Kwargs = args, kwargs
	if err := m.readHeaders(d.env.Headers); err != nil {
		return nil, err
	}
	m.CustomHeaders = customHeaders(d.env.Headers)
	return m, m.readEmbed(embed)
}

// partsOf are the three items of a body of protocol 2.
func partsOf(payload any) (args any, kwargs, embed map[string]any, err error) {
	body, ok := payload.([]any)
	if !ok || len(body) != 3 {
		return nil, nil, nil, invalidTaskf("the body is not a list of args, kwargs and embed: %s", Repr(payload, 60))
	}
	if kwargs, ok = body[1].(map[string]any); !ok {
		return nil, nil, nil, invalidTaskf("%s, not a %s", kwargsReason, pythonType(body[1]))
	}
	if embed, ok = body[2].(map[string]any); !ok && body[2] != nil {
		return nil, nil, nil, invalidTaskf("embed is a %s, not a mapping", pythonType(body[2]))
	}
	return body[0], kwargs, embed, nil
}

func (d *messageDecoder) newMessage(protocol int) *Message {
	m := &Message{Protocol: protocol}
	redelivered, _ := d.env.Headers["redelivered"].(bool)
	m.describe(d.env, d.compression, redelivered)
	return m
}

// describe takes what the envelope says.
func (m *Message) describe(e *Envelope, compression string, redelivered bool) {
	p := &e.Properties
	m.Redelivered = redelivered || p.DeliveryInfo.Redelivered
	m.ReplyTo, m.CorrelationID = p.ReplyTo, p.CorrelationID
	m.Priority, m.Queue = p.Priority, p.DeliveryInfo.RoutingKey
	m.ContentType, m.ContentEncoding, m.Compression = e.ContentType, e.ContentEncoding, compression
}
