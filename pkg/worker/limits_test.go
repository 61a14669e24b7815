package worker

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// limited has the backend take what can be encoded, up to a size.
func (h *harness) limited(size int) {
	h.backend.fail = func(meta protocol.Meta) error {
		body, _, _, err := protocol.EncodeMeta("json", meta)
		if err == nil && len(body) > size {
			err = transport.ErrTooLarge
		}
		return err
	}
}

var long = strings.Repeat("long ", 10_000)

// TestFailureTooLargeToBeStored: the outcome stays what it is, so that a rejected
// message goes to the dead letters, and who waits for the task, or for the chain it
// is part of, gets the class and the beginning of the text.
func TestFailureTooLargeToBeStored(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.DeadLetterQueue = true, "dead"
		h.handle("t", returning(nil, tasks.Reject(long, false)))
		h.limited(4000)
		h.start()
		id := h.send(protocol.Message{Task: "t", Chain: []protocol.Signature{next("second")}})
		synctest.Wait()
		require.Len(t, h.broker.waiting("dead"), 1)
		for _, id := range []string{id, "id of second"} {
			stored := h.only(id)
			require.Equal(t, protocol.StateFailure, stored.Status)
			require.Equal(t, protocol.Exception{
				Type: "Reject", Module: "celery.exceptions", Args: []any{long[:storedText] + "…", false},
			}, stored.Result)
		}
	})
}

// TestArgumentsTooLargeForAnExtendedResult are left out: they are the producer's, and
// no fault of the task.
func TestArgumentsTooLargeForAnExtendedResult(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.ResultExtended = true
		h.handle("t", returning(int64(5), nil))
		h.limited(4000)
		h.start()
		id := h.send(protocol.Message{Task: "t", Args: []any{long}})
		synctest.Wait()
		stored := h.only(id)
		require.Equal(t, protocol.StateSuccess, stored.Status)
		require.Equal(t, int64(5), stored.Result)
		require.Equal(t, "t", stored.Extra["name"])
		require.NotContains(t, stored.Extra, "args")
	})
}

// TestResultThatTheRecordMakesTooDeep has a form on the wire by itself. The caller
// learns of it.
func TestResultThatTheRecordMakesTooDeep(t *testing.T) {
	var deep any = int64(1)
	for range 256 {
		deep = []any{deep}
	}
	inBubble(t, func(h *harness) {
		h.handle("t", returning(deep, nil))
		h.limited(4000)
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		stored := h.only(id)
		require.Equal(t, protocol.StateFailure, stored.Status)
		require.Equal(t, "EncodeError", stored.Result.(protocol.Exception).Type)
		require.Len(t, seen[TaskFailed](h.recorder), 1)
	})
}

// TestRefusalsGiveUpWithTheBackend: a message may name thousands of steps.
func TestRefusalsGiveUpWithTheBackend(t *testing.T) {
	chord := protocol.Signature{
		Task: "chord", SubtaskType: "chord", Args: []any{}, Kwargs: map[string]any{}, Options: map[string]any{"task_id": "chord"},
	}
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		h.backend.fail = func(protocol.Meta) error { return errBoom }
		h.start()
		message := protocol.Message{Task: "t", Chain: []protocol.Signature{next("last")}}
		for range 100 {
			message.Chain = append(message.Chain, next("a"))
		}
		message.Chain = append(message.Chain, chord)
		h.send(message)
		elapse(2 * storePatience)
		require.Zero(t, h.unsettled())
		require.Len(t, h.broker.waiting("celery.unprocessable"), 1)
	})
}
