package worker

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

type panickingError struct{}

func (panickingError) Error() string { panic("in Error") }

type panickingResult struct{}

func (panickingResult) MarshalText() ([]byte, error) { panic("in MarshalText") }

// TestMethodsOfWhatAHandlerReturnsMayPanic: they are the user's, and the worker
// calls them outside of the handler.
func TestMethodsOfWhatAHandlerReturnsMayPanic(t *testing.T) {
	for name, handler := range map[string]tasks.HandlerFunc{
		"typed nil error": func(context.Context, tasks.Arguments) (any, error) { var e *fs.PathError; return nil, e },
		"Error":           func(context.Context, tasks.Arguments) (any, error) { return nil, panickingError{} },
		"MarshalText":     func(context.Context, tasks.Arguments) (any, error) { return panickingResult{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.AcksOnFailure = true, false
				h.handle("t", handler)
				h.handle("works", nothing)
				h.start()
				id := h.send(protocol.Message{Task: "t"})
				works := h.send(protocol.Message{Task: "works"})
				synctest.Wait()
				require.Equal(t, protocol.StateFailure, h.only(id).Status)
				require.Equal(t, protocol.StateSuccess, h.only(works).Status)
			})
		})
	}
}

// TestWhatCanNeverBeStoredIsNotRunForEver: no worker can do it later either.
func TestWhatCanNeverBeStoredIsNotRunForEver(t *testing.T) {
	for name, failure := range map[string]error{
		"name": transport.ErrName, "size": transport.ErrTooLarge, "encoding": &protocol.EncodeError{Err: errBoom},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate = true
				h.handle("t", nothing)
				h.backend.fail = func(protocol.Meta) error { return failure }
				h.start()
				h.send(protocol.Message{Task: "t"})
				elapse(time.Hour)
				require.Equal(t, "ack", h.settled()[len(h.settled())-1])
				require.Len(t, seen[TaskStarted](h.recorder), 1)
			})
		})
	}
}

// TestRetryThatCanNeverBePublishedFails: the handler asked for arguments that have
// no form on the wire.
func TestRetryThatCanNeverBePublishedFails(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(0), tasks.RetryArgs(make(chan int)))
		})
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		elapse(time.Hour)
		states := h.backend.states(id)
		require.Equal(t, protocol.StateFailure, states[len(states)-1].Status)
		require.Len(t, seen[TaskStarted](h.recorder), 1)
	})
}

// TestDeadLetterThatFailsDoesNotLoop: the message comes back after a while.
func TestDeadLetterThatFailsDoesNotLoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.broker.fail = func(operation string) error {
			if strings.HasPrefix(operation, "dead-letter") {
				return transport.ErrName
			}
			return nil
		}
		h.start()
		h.broker.put("celery", &fakeMessage{body: []byte("not json")})
		elapse(10 * time.Minute)
		synctest.Wait()
		events := seen[MessageUnprocessable](h.recorder)
		require.InDelta(t, 11, len(events), 1, "once a minute")
		require.Empty(t, events[0].KeptIn, "nothing was kept")
	})
}

// TestEarlyTaskRunsWhenItsAckMayHaveBeenApplied: nobody else may get the message.
func TestEarlyTaskRunsWhenItsAckMayHaveBeenApplied(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		h.broker.fail = func(operation string) error {
			if operation == "ack" {
				return transport.ErrUnconfirmed
			}
			return nil
		}
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
	})
}

// TestColdShutdownHandsBackWhateverErrorEndsALateTask: drivers have their own
// errors for a cancelled context.
func TestColdShutdownHandsBackWhateverErrorEndsALateTask(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			<-ctx.Done()
			return nil, errors.New("query aborted")
		})
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		h.worker.Cancel()
		require.NoError(t, h.worker.Stop(context.Background()))
		require.Empty(t, h.backend.states(id))
		require.Len(t, h.broker.waiting("celery"), 1)
	})
}

// TestRefusalLooksForAnEarlierState: a retry that a Python worker published has
// RETRY stored already.
func TestRefusalLooksForAnEarlierState(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.start()
		id := h.send(protocol.Message{Task: "no.such", Retries: 2})
		synctest.Wait()
		require.False(t, h.backend.first[id+" FAILURE"])
	})
}

// TestDueTaskGetsTheOnlySlot: it is not kept from running by a consumer that waits
// on the slot for something to come.
func TestDueTaskGetsTheOnlySlot(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Concurrency = 1
		var ran time.Time
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { ran = time.Now(); return nil, nil })
		h.start()
		eta := time.Now().Add(300 * time.Millisecond)
		h.send(protocol.Message{Task: "t", ETA: eta})
		elapse(2 * time.Second)
		synctest.Wait()
		require.WithinDuration(t, eta, ran, 20*time.Millisecond)
	})
}

// TestResultLooksForAnEarlierState: a worker that died between storing a late task's
// result and its ack leaves no trace on the message, and the id of an early task may
// have been published before.
func TestResultLooksForAnEarlierState(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			h.handle("t", nothing)
			h.start()
			id := h.send(protocol.Message{Task: "t"})
			synctest.Wait()
			require.False(t, h.backend.first[id+" SUCCESS"], "late: %t", late)
		})
	}
}
