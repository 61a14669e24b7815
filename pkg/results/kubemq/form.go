package kubemq

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// Form is how the state of a task is written into a message and read from it, and
// which states stay. Its methods are called from several goroutines.
type Form interface {
	// Encode writes a state: a message's body and its metadata, which may be empty.
	Encode(meta protocol.Meta) (body []byte, metadata string, err error)
	// Decode reads a body. What comes from the broker is untrusted.
	Decode(body []byte) (protocol.Meta, error)
	// Label reads a task's id and state from metadata; the state is "" where it takes
	// the body to know.
	Label(metadata string) (taskID string, state protocol.State)
	// Keeps tells whether no later state replaces this one: the first such state of a
	// task is what readers see for ever.
	Keeps(state protocol.State) bool
}

// celery is kubemq-celery's form.
type celery struct{}

// label is what stands beside a result.
type label struct {
	TaskID string `json:"task_id"`
	Status string `json:"status"`
}

func (celery) Encode(meta protocol.Meta) (body []byte, metadata string, err error) {
	if meta.GroupID == "" {
		// kubemq-celery always writes the key.
		meta.Extra = maps.Clone(meta.Extra)
		if meta.Extra == nil {
			meta.Extra = make(map[string]any, 1)
		}
		meta.Extra["group_id"] = nil
	}
	body, _, _, err = protocol.EncodeMeta("json", meta)
	if err != nil {
		return nil, "", err
	}
	beside, err := json.Marshal(label{TaskID: meta.TaskID, Status: string(meta.Status)})
	if err != nil {
		return nil, "", fmt.Errorf("label: %w", err)
	}
	return body, string(beside), nil
}

func (celery) Decode(body []byte) (protocol.Meta, error) { return protocol.DecodeMeta(body) }

func (celery) Label(metadata string) (taskID string, state protocol.State) {
	var beside label
	if !strings.HasPrefix(metadata, "{") || json.Unmarshal([]byte(metadata), &beside) != nil {
		return "", ""
	}
	return beside.TaskID, protocol.State(beside.Status)
}

// Keeps: a task that has succeeded has.
func (celery) Keeps(state protocol.State) bool { return state == protocol.StateSuccess }

// status is the state of a message of the task, "" if it is not one. The label is
// enough where there is one.
func status(form Form, message *pb.QueueMessage, taskID string) protocol.State {
	id, state := form.Label(message.Metadata)
	if state == "" {
		meta, err := form.Decode(message.Body)
		if err != nil {
			return ""
		}
		id, state = meta.TaskID, meta.Status
	}
	if id != taskID {
		return ""
	}
	return state
}
