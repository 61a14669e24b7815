package command

import (
	"encoding/json"
	"errors"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// identifyRayServe finds the task and the id of a Ray Serve task, as far as they can
// be read; "" where body is none.
func identifyRayServe(body []byte, limits protocol.Limits) (task, id string) {
	decoded, err := rayserve.DecodeTask(body, limits)
	if err == nil {
		return decoded.Name, decoded.ID
	}
	var malformed *rayserve.MalformedError
	if errors.As(err, &malformed) {
		return malformed.Name, malformed.ID
	}
	return "", ""
}

// openRayServe shows the body of a Ray Serve task as it is, if it is one. It has no
// headers: all of it is payload.
func (s *shownLetter) openRayServe() (opened bool) {
	if _, err := rayserve.DecodeTask(s.Body, letterLimits()); err != nil {
		return false
	}
	s.ContentType, s.Payload = protocol.ContentTypeJSON, s.Body
	if !json.Valid(s.Body) { // NaN
		var err error
		s.Payload, err = json.Marshal(string(s.Body))
		return err == nil
	}
	return true
}

// restored is the message that a letter was. A Ray Serve task gets its limit back, which
// a letter has lost, or it would be moved again: the adapter leaves it to the broker to
// move a task that has failed.
func (d *dlqTool) restored(letter *kubemq.QueueMessage, queue string) *kubemq.QueueMessage {
	message := kubemq.Restored(letter)
	for _, known := range d.rayServe {
		if known.Name == queue && known.MaxRetries > 0 && known.FailedTaskQueue != "" && message.Policy.GetMaxReceiveQueue() == "" {
			message.Policy.MaxReceiveCount, message.Policy.MaxReceiveQueue = int32(known.MaxRetries), known.FailedTaskQueue
		}
	}
	return message
}

var errNoHeaders = errors.New("a Ray Serve task has no headers: --args and --kwargs can be changed")

// rewriteRayServe edits a Ray Serve task. notCelery is why body is no message of
// Celery's, for what is none of Ray Serve's either.
func (e *letterEdit) rewriteRayServe(body []byte, notCelery error) (rewritten, error) {
	task, err := rayserve.DecodeTask(body, letterLimits())
	if err != nil {
		return rewritten{}, notCelery
	}
	if len(e.headers) > 0 {
		return rewritten{}, errNoHeaders
	}
	if e.args != nil {
		task.Args = e.args
	}
	if e.kwargs != nil {
		task.Kwargs = e.kwargs
	}
	body, err = rayserve.EncodeTask(*task)
	return rewritten{body: body, task: task.Name, id: task.ID}, err
}
