package rayserve

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results/kubemq"
)

const (
	// DefaultMaxResult is 4 MiB, in bytes. It is also all that the Python SDK's clients
	// receive in one piece unless they are configured otherwise (docs/protocol.md §8.3).
	DefaultMaxResult = 4 << 20
	// messageRoom is what an answer of the broker holds beside the record, in bytes:
	// 184 were measured, and names may be longer.
	messageRoom = 512
	// minMaxResult is room for a record without a result.
	minMaxResult = 8 << 10
	// keptText bytes are kept of an error in a record that is too large, keptTime of the
	// time that its producer wrote.
	keptText = 1000
	keptTime = 64
	// recordDepth is how deep a record may be: as deep as protocol.ToValue lets a result be,
	// and the record around it.
	recordDepth = 256 + 2
)

// Form is Ray Serve's form of a result in a KubeMQ queue (docs/protocol.md §24.2). What
// can't be written as it is becomes a record that says so: who waits for the task
// waits for its state. Of a task's states the first SUCCESS or CANCELLED stays; a
// FAILURE doesn't, since a task that comes back from the failed task queue may succeed.
type Form struct {
	// MaxResult is the largest record in bytes, with 512 for the message around it; 0 means
	// DefaultMaxResult. A larger SUCCESS is written with a null result and an error that
	// gives both sizes.
	MaxResult int
	// Replaced, if set, is told of each record that had to be written another way, and why;
	// again for each try to store it.
	Replaced func(taskID string, err error)
}

var _ kubemq.Form = Form{}

// Encode writes a record; there is no metadata.
func (f Form) Encode(meta protocol.Meta) (body []byte, metadata string, err error) {
	now := time.Now()
	body, err = wire.EncodeResult(meta, now)
	most := f.most()
	var unfit *protocol.EncodeError
	switch {
	case errors.As(err, &unfit):
		meta = unwritable(meta, unfit)
	case err != nil:
		return nil, "", err
	case len(body)+messageRoom > most:
		size := len(body) + messageRoom
		err = fmt.Errorf("%d bytes with the message around it, at most %d", size, most)
		meta = tooLarge(meta, fmt.Sprintf("the result of %d bytes, its message included, exceeds the limit of %d bytes", size, most))
	default:
		return body, "", nil
	}
	if f.Replaced != nil {
		f.Replaced(meta.TaskID, fmt.Errorf("results: the result of task %q can't be stored as it is: %w", meta.TaskID, err))
	}
	body, err = wire.EncodeResult(meta, now)
	return body, "", err
}

// Decode reads a record, within protocol.DefaultLimits, or more where that is needed for
// what Encode writes: a result that can't be read is one that the task runs again for.
func (f Form) Decode(body []byte) (protocol.Meta, error) {
	limits := protocol.DefaultLimits()
	limits.Depth = max(limits.Depth, recordDepth)
	limits.Body = max(limits.Body, f.most())
	limits.Items = max(limits.Items, f.most())
	return wire.DecodeResult(body, limits)
}

// most is the largest record in bytes.
func (f Form) most() int { return cmp.Or(f.MaxResult, DefaultMaxResult) }

// Label knows nothing: the adapter writes no metadata.
func (f Form) Label(string) (taskID string, state protocol.State) { return "", "" }

// Keeps is true of SUCCESS, and of REVOKED, the adapter's CANCELLED.
func (f Form) Keeps(state protocol.State) bool {
	return state == protocol.StateSuccess || state == protocol.StateRevoked
}

// unwritable is the record of a task whose result JSON has no form for.
func unwritable(meta protocol.Meta, err *protocol.EncodeError) protocol.Meta {
	text := fmt.Sprintf("the task has run, but its result can't be written: %s: %v", err.Path, err.Err)
	meta.Status = protocol.StateFailure
	meta.Result = protocol.Exception{Type: "EncodeError", Module: "kombu.exceptions", Args: []any{text}}
	meta.Extra = shortExtra(meta, "")
	return meta
}

// tooLarge is what remains of a record that is too large: its state, and why in place of
// a result, or as much of the error as fits.
func tooLarge(meta protocol.Meta, why string) protocol.Meta {
	if meta.Status != protocol.StateSuccess {
		text, explicit := meta.Extra[wire.ExtraError].(string)
		if exception, failed := meta.Result.(protocol.Exception); failed && !explicit {
			text = wire.ErrorText(exception)
		}
		if text != "" {
			why = strings.ToValidUTF8(text[:min(len(text), keptText)], "") + "… (" + why + ")"
		}
	}
	meta.Result = nil
	meta.Extra = shortExtra(meta, why)
	return meta
}

// shortExtra are the keys that a short record has: the time of its task, and an error
// unless it is empty.
func shortExtra(meta protocol.Meta, message string) map[string]any {
	extra := make(map[string]any, 2)
	if created, _ := meta.Extra[wire.ExtraCreatedAt].(string); created != "" && len(created) <= keptTime {
		extra[wire.ExtraCreatedAt] = created
	}
	if message != "" {
		extra[wire.ExtraError] = message
	}
	return extra
}
