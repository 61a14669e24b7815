package command

import (
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// letterEdit is what to change in a message; nil leaves things as they are.
type letterEdit struct {
	args    []any
	kwargs  map[string]any
	headers map[string]any
}

// rewritten is what a message says after an edit.
type rewritten struct {
	body               []byte
	metadata, task, id string
}

// rewrite edits a message, which must be one that a worker can read afterwards.
func (e *letterEdit) rewrite(body []byte) (rewritten, error) {
	envelope, err := protocol.DecodeEnvelope(body, protocol.DefaultLimits())
	if err != nil {
		return e.rewriteRayServe(body, err)
	}
	if err := e.change(envelope); err != nil {
		return rewritten{}, err
	}
	message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Limits: protocol.DefaultLimits()})
	if err != nil {
		return rewritten{}, fmt.Errorf("no worker could read it then: %w", err)
	}
	body, headers, err := envelope.Wire(uuid.NewString())
	return rewritten{body: body, metadata: string(headers), task: message.Task, id: message.ID}, err
}

// change edits an envelope whose body is plain JSON.
func (e *letterEdit) change(envelope *protocol.Envelope) error {
	if envelope.ContentType != protocol.ContentTypeJSON {
		return fmt.Errorf("its body is %s; only %s can be edited", plain(envelope.ContentType), protocol.ContentTypeJSON)
	}
	if compression := envelope.Headers["compression"]; compression != nil && compression != "" {
		return fmt.Errorf("its body is compressed (%s); only a plain one can be edited", plain(fmt.Sprint(compression)))
	}
	if e.args != nil || e.kwargs != nil {
		payload, err := protocol.DecodeJSON(envelope.Body, protocol.DefaultLimits())
		if err != nil {
			return err
		}
		if err := e.changeArguments(payload); err != nil {
			return err
		}
		if envelope.Body, err = protocol.EncodeJSON(payload); err != nil {
			return err
		}
	}
	e.changeHeaders(envelope.Headers)
	return nil
}

// changeArguments edits a body: a list of args, kwargs and embed in protocol 2, a
// map with the two in protocol 1.
func (e *letterEdit) changeArguments(payload any) error {
	switch body := payload.(type) {
	case []any:
		if len(body) < 2 {
			break
		}
		if e.args != nil {
			body[0] = e.args
		}
		if e.kwargs != nil {
			body[1] = e.kwargs
		}
		return nil
	case map[string]any:
		if e.args != nil {
			body["args"] = e.args
		}
		if e.kwargs != nil {
			body["kwargs"] = e.kwargs
		}
		return nil
	}
	return errors.New("its body holds no args and kwargs")
}

// changeHeaders sets headers, and the texts that show the arguments where protocol 2
// has them.
func (e *letterEdit) changeHeaders(headers map[string]any) {
	if _, shown := headers["argsrepr"]; shown && e.args != nil {
		headers["argsrepr"] = protocol.ReprArgs(e.args)
	}
	if _, shown := headers["kwargsrepr"]; shown && e.kwargs != nil {
		headers["kwargsrepr"] = protocol.Repr(e.kwargs, protocol.ReprLimit)
	}
	maps.Copy(headers, e.headers)
}
