package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// letterHook keeps what a dead-letter hook is told, and panics if it should.
type letterHook struct {
	panics bool
	mu     sync.Mutex
	told   []string
}

func (h *letterHook) OnDeadLetter(_ context.Context, taskID string, err error) {
	h.mu.Lock()
	h.told = append(h.told, fmt.Sprint(taskID, ": ", err))
	h.mu.Unlock()
	if h.panics {
		panic("a hook")
	}
}

// TestDeadLetterIsTold: the hook is called once for a dead letter, when its copy is
// confirmed, and a panic in it harms nothing.
func TestDeadLetterIsTold(t *testing.T) {
	for _, panics := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate, h.options.DeadLetterQueue = true, "dead"
			hook := &letterHook{panics: panics}
			h.registry.AddHook(hook)
			h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
			h.handle("good", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil })
			h.start()
			id := h.send(protocol.Message{Task: "bad"})
			good := h.send(protocol.Message{Task: "good"})
			h.settled()
			require.Equal(t, []string{id + ": " + seen[TaskFailed](h.recorder)[0].Err.Error()}, hook.told)
			require.Len(t, seen[DeadLettered](h.recorder), 1)
			require.Equal(t, protocol.StateSuccess, h.only(good).Status)
			if panics {
				require.Len(t, seen[HookPanicked](h.recorder), 1)
			} else {
				require.Empty(t, seen[HookPanicked](h.recorder))
			}
		})
	}
}

// TestDeadLetterThatFailed is told when it has been done.
func TestDeadLetterThatFailed(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.DeadLetterQueue = true, "dead"
		hook := &letterHook{}
		h.registry.AddHook(hook)
		failures := 2
		h.broker.fail = func(operation string) error {
			if operation == "dead-letter dead rejected" && failures > 0 {
				failures--
				return transport.ErrUnconfirmed
			}
			return nil
		}
		h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
		h.start()
		h.send(protocol.Message{Task: "bad"})
		elapse(10 * requeueMax)
		require.Len(t, hook.told, 1)
		require.Len(t, h.broker.waiting("dead"), 1)
	})
}

// TestNoLetterNothingTold: without a queue the message is dropped, as Celery does, and
// settled once.
func TestNoLetterNothingTold(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			hook := &letterHook{}
			h.registry.AddHook(hook)
			h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
			h.start()
			h.send(protocol.Message{Task: "bad"})
			acks := 0
			for _, step := range h.settled() {
				if step == "ack" {
					acks++
				}
			}
			require.Equal(t, 1, acks)
			require.Empty(t, hook.told)
			require.Empty(t, seen[DeadLettered](h.recorder))
			require.Empty(t, seen[SettleFailed](h.recorder))
		})
	}
}

// TestEarlyRejectIsKept: the message is acked, a copy of it becomes the dead letter.
func TestEarlyRejectIsKept(t *testing.T) {
	for _, auto := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.DeadLetterQueue, h.options.AutoAck = "dead", auto
			hook := &letterHook{}
			h.registry.AddHook(hook)
			h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
			h.start()
			id := h.send(protocol.Message{Task: "bad"})
			h.settled()
			require.Equal(t, protocol.StateFailure, h.only(id).Status)
			require.Equal(t, reasonRejected, h.broker.waiting("dead")[0].letter.Reason)
			require.Len(t, hook.told, 1)
			require.Empty(t, h.broker.waiting("celery"))
			require.Empty(t, seen[SettleFailed](h.recorder))
		})
	}
}

// TestRejectedToTheProducersQueue: one is named with the message, none in the
// settings.
func TestRejectedToTheProducersQueue(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
		h.start()
		message := protocol.Message{Task: "bad"}
		h.broker.put("celery", &fakeMessage{body: encode(t, &message), limit: 9, limitQueue: "theirs"})
		h.settled()
		require.Equal(t, reasonRejected, h.broker.waiting("theirs")[0].letter.Reason)
	})
}

// TestLetterOfAFailure: with acks_on_failure off a failure is rejected, and the
// letter tells the error with its traceback.
func TestLetterOfAFailure(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.AcksOnFailure, h.options.DeadLetterQueue = true, false, "dead"
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { panic("ouch") })
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		h.settled()
		letter := h.broker.waiting("dead")[0].letter
		require.Equal(t, reasonRejected, letter.Reason)
		require.Contains(t, letter.Detail, "ouch")
		require.Contains(t, letter.Traceback, "deadletter_test.go")
		require.Equal(t, id, letter.ID)
		require.Empty(t, letter.FirstError, "there was one attempt")
	})
}

// TestUndecodableIsNoDeadLetter: bytes that are no task go to the unprocessable
// queue, with what could be read of them, and no dead letter is told.
func TestUndecodableIsNoDeadLetter(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.DeadLetterQueue, h.options.MaxAttempts = "dead", 1
		hook := &letterHook{}
		h.registry.AddHook(hook)
		h.start()
		h.broker.put("celery", &fakeMessage{body: []byte("\x00 not an envelope")})
		unknown := protocol.Message{Task: "no.such"}
		h.send(unknown)
		h.settled()
		require.Empty(t, h.broker.waiting("dead"))
		require.Empty(t, hook.told)
		kept := h.broker.waiting("celery.unprocessable")
		require.Len(t, kept, 2)
		byReason := map[string]*transport.DeadLetter{}
		for _, message := range kept {
			byReason[message.letter.Reason] = message.letter
		}
		require.Empty(t, byReason[reasonEnvelope].Task)
		require.Equal(t, "no.such", byReason[reasonUnregistered].Task)
		require.NotEmpty(t, byReason[reasonUnregistered].ID)
		require.Equal(t, "celery@test", byReason[reasonEnvelope].Worker)
	})
}

// TestCopiedButNotAcked: the copy is there, so it is told, although the broker may
// deliver the original again.
func TestCopiedButNotAcked(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.DeadLetterQueue = true, "dead"
		hook := &letterHook{}
		h.registry.AddHook(hook)
		h.broker.fail = func(operation string) error {
			if operation == "dead-letter dead rejected" {
				return fmt.Errorf("%w: %w", transport.ErrCopied, transport.ErrLost)
			}
			return nil
		}
		h.handle("bad", func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("no use", false) })
		h.start()
		h.send(protocol.Message{Task: "bad"})
		h.settled()
		require.Len(t, hook.told, 1)
		failed := seen[SettleFailed](h.recorder)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, transport.ErrCopied)
	})
}

// TestAutoAck: nothing is late, and the tasks that want to be are named once.
func TestAutoAck(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AutoAck = true
		h.handle("late", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil }, tasks.AcksLate())
		h.handle("early", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil })
		h.start()
		h.send(protocol.Message{Task: "late"})
		require.Equal(t, []string{"ack", "worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded"}, h.settled())
		require.Equal(t, []AcksLateIgnored{{Tasks: []string{"late"}}}, seen[AcksLateIgnored](h.recorder))
		require.True(t, h.broker.autoAcked, "the broker is asked to")
	})
}

// TestBrokerThatTakesNoCopies: a message that can neither go to the dead letters nor
// be handed back later does not come again at once, over and over.
func TestBrokerThatTakesNoCopies(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.DeadLetterQueue = true, "dead"
		runs := 0
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
			if runs++; runs > 100 {
				return nil, nil // the test has seen enough
			}
			return nil, tasks.Reject("never", false)
		})
		h.broker.fail = func(operation string) error {
			if strings.HasPrefix(operation, "dead-letter") || strings.HasPrefix(operation, "requeue") {
				return errBoom
			}
			return nil
		}
		h.start()
		h.send(protocol.Message{Task: "t"})
		elapse(time.Minute)
		require.LessOrEqual(t, runs, 6)
		h.heal()
		elapse(2 * time.Minute)
		require.Len(t, h.broker.waiting("dead"), 1)
	})
}

// TestAFailedDeadLetterTellsWhetherItComesAgain: an early task's message is acked.
func TestAFailedDeadLetterTellsWhetherItComesAgain(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate, h.options.DeadLetterQueue = late, "dead"
			h.broker.fail = func(operation string) error {
				if strings.HasPrefix(operation, "dead-letter") {
					return errBoom
				}
				return nil
			}
			h.handle("t", returning(nil, tasks.Reject("never", false)))
			h.start()
			h.send(protocol.Message{Task: "t"})
			synctest.Wait()
			failed := seen[SettleFailed](h.recorder)
			require.Len(t, failed, 1)
			require.Equal(t, !late, failed[0].Acked, "late: %t", late)
			h.heal()
		})
	}
}
