package worker

import (
	"errors"
	"fmt"

	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
)

// unsupportedError: the message asks for something this version can't do. It is
// refused whole: running the task and dropping what follows it would lose work.
type unsupportedError struct {
	message *protocol.Message
	needs   string
}

func (e *unsupportedError) Error() string {
	return "worker: task " + e.message.Task + "[" + e.message.ID + "] asks for " + e.needs + ", which this version does not support"
}

// checkContinuation refuses a message before its task runs where what follows
// could not be published.
func (w *Worker) checkContinuation(m *protocol.Message) error {
	if inChord(m) && w.backend == nil {
		return &unsupportedError{message: m, needs: "a chord without a result backend"}
	}
	err := w.publisher.Check(m)
	var unsupported *canvas.UnsupportedError
	if errors.As(err, &unsupported) {
		return &unsupportedError{message: m, needs: unsupported.What}
	}
	return err
}

// inChord tells whether a task is part of a chord's header. The join, which is not
// done here, waits for its result, so one is stored whatever the settings say.
func inChord(m *protocol.Message) bool { return m.Chord != nil }

// storeUnsupported tells whoever waits for the task, or for the chain it is part
// of.
func (w *Worker) storeUnsupported(j *job, e *unsupportedError) {
	exception := protocol.Exception{Type: "NotImplementedError", Module: "builtins", Args: []any{e.Error()}}
	refused := meta(e.message.ID, protocol.StateFailure)
	refused.GroupID, refused.ParentID = e.message.GroupID, e.message.ParentID
	if refused.Result = exception; w.storeRefusal(j, refused) {
		w.storeRefusals(j, canvas.Rest(e.message), exception)
	}
}

// failChord tells whoever waits for the body of a chord that no worker of this
// queue joins it.
func (w *Worker) failChord(j *job) {
	m, err := protocol.DecodeMessage(j.envelope, protocol.DecodeOptions{Accept: w.accept, Limits: w.options.Limits})
	if err != nil {
		return // the message is kept as it is
	}
	w.storeRefusals(j, canvas.Joined(m), protocol.Exception{
		Type: "ChordError", Module: "celery.exceptions",
		Args: []any{fmt.Sprintf("the chord can't be joined: %s is not registered with the worker of queue %q", m.Task, j.delivery.Queue())},
	})
}

// storeRefusals gives up with the first that the backend doesn't take: a message may
// name thousands of steps, and each is tried for a while.
func (w *Worker) storeRefusals(j *job, steps []canvas.Step, exception protocol.Exception) {
	for _, step := range steps {
		m := meta(step.ID, protocol.StateFailure)
		m.GroupID, m.Result = step.GroupID, exception
		if !w.storeRefusal(j, m) {
			return
		}
	}
}
