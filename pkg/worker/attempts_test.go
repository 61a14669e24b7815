package worker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// TestRequeueWaitsLonger is T-39: a message that is rejected for ever comes 1, 2, 4 …
// 60 seconds later, early or late, so a loop costs nothing.
func TestRequeueWaitsLonger(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			var calls []time.Duration
			begun := time.Now()
			h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
				calls = append(calls, time.Since(begun))
				return nil, tasks.Reject("again", true)
			})
			h.start()
			h.send(protocol.Message{Task: "t"})
			elapse(10 * time.Minute)
			want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543}
			require.Len(t, calls, len(want))
			for i := range want {
				require.Equal(t, time.Duration(want[i])*time.Second, calls[i])
			}
		})
	}
}

// TestMaxAttempts: each way to come back counts, and the last attempt ends in the
// dead-letter queue with what the caller, the observers and the operator need.
func TestMaxAttempts(t *testing.T) {
	const text = "delivered 3 times, the limit is 3: "
	reject := func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("again", true) }
	goexit := func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, nil }
	for name, c := range map[string]struct {
		late    bool
		handler tasks.HandlerFunc
		reason  string
		class   string
		text    string
		journal []string // of the last attempt
	}{
		"reject late": {
			true, reject, reasonMaxAttempts, "Reject", text + "tasks: rejected and requeued: again",
			[]string{"note start", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "worker.TaskRejected", "dead-letter dead max-attempts"},
		},
		"reject early": {
			false, reject, reasonMaxAttempts, "Reject", text + "tasks: rejected and requeued: again",
			[]string{"ack", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "worker.TaskRejected", "dead-letter dead max-attempts"},
		},
		"worker lost": {
			true, goexit, reasonWorkerLost, "WorkerLostError", "Worker exited prematurely: " + text + errGoexit.Error(),
			[]string{"note start", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "worker.TaskRejected", "dead-letter dead worker-lost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.RejectOnWorkerLost = c.late, true
				h.options.MaxAttempts, h.options.DeadLetterQueue = 3, "dead"
				var calls atomic.Int64
				h.handle("t", func(ctx context.Context, a tasks.Arguments) (any, error) {
					calls.Add(1)
					return c.handler(ctx, a)
				})
				h.start()
				id := h.send(protocol.Message{Task: "t"})
				elapse(time.Hour)
				require.EqualValues(t, 3, calls.Load())
				lines := h.settled()
				require.Equal(t, c.journal, lines[len(lines)-len(c.journal):])

				meta := h.only(id)
				require.Equal(t, protocol.StateFailure, meta.Status)
				exception, ok := meta.Result.(protocol.Exception)
				require.True(t, ok)
				require.Equal(t, c.class, exception.Type)
				require.Equal(t, c.text, exception.Args[0])

				letters := h.broker.waiting("dead")
				require.Len(t, letters, 1)
				require.Equal(t, c.reason, letters[0].letter.Reason)
				require.Equal(t, c.text, letters[0].letter.Detail)
				require.NotEmpty(t, letters[0].letter.FirstError)
				require.NotContains(t, letters[0].letter.FirstError, "delivered", "the first error is the first attempt's")
				require.Equal(t, "t", letters[0].letter.Task)
				require.Equal(t, id, letters[0].letter.ID)
				require.Equal(t, "celery@test", letters[0].letter.Worker)
				require.False(t, letters[0].letter.Time.IsZero())

				events := seen[DeadLettered](h.recorder)
				require.Len(t, events, 1)
				require.Equal(t, "dead", events[0].Queue)
				require.Equal(t, c.reason, events[0].Reason)
				require.Equal(t, id, events[0].ID)
				require.ErrorIs(t, events[0].Err, ErrMaxAttempts)
			})
		})
	}
}

// TestUnfinishedStarts: workers died with the message; it is run up to its limit and
// then not once more.
func TestUnfinishedStarts(t *testing.T) {
	for name, c := range map[string]struct {
		starts int
		runs   bool
	}{"one is left": {2, true}, "none is left": {3, false}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 3, "dead"
				var attempt int
				h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
					request, _ := tasks.RequestFrom(ctx)
					attempt = request.Attempt
					return int64(1), nil
				})
				h.start()
				message := protocol.Message{Task: "t"}
				h.broker.put("celery", &fakeMessage{body: encode(t, &message), starts: c.starts})
				h.settled()
				if c.runs {
					require.Equal(t, 3, attempt, "the handler knows")
					require.Equal(t, protocol.StateSuccess, h.only(message.ID).Status)
					require.False(t, h.backend.first[message.ID+" SUCCESS"], "the worker that died may have stored STARTED")
					require.Empty(t, h.broker.waiting("dead"))
					return
				}
				require.Zero(t, attempt)
				require.Equal(t, protocol.Exception{
					Type: "WorkerLostError", Module: "billiard.exceptions",
					Args: []any{"Worker exited prematurely: delivered 3 times, the limit is 3"},
				}, h.only(message.ID).Result)
				require.Equal(t, reasonWorkerLost, h.broker.waiting("dead")[0].letter.Reason)
				require.Empty(t, seen[TaskStarted](h.recorder))
			})
		})
	}
}

// TestNoNoteWhereNoneIsNeeded: it costs a round trip for each task.
func TestNoNoteWhereNoneIsNeeded(t *testing.T) {
	for name, configure := range map[string]func(h *harness){
		"no limit": func(h *harness) { h.options.MaxAttempts = 0 },
		"early":    func(h *harness) { h.options.AcksLate = false },
		"counted":  func(h *harness) { h.broker.capabilities.CountsAttempts = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 3, "dead"
				configure(h)
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil })
				h.start()
				h.send(protocol.Message{Task: "t"})
				require.NotContains(t, h.settled(), "note start")
				require.Len(t, seen[TaskSucceeded](h.recorder), 1)
			})
		})
	}
}

// TestCountedByTheBroker: what comes beyond the limit has cost workers, because what
// we send back ourselves ends at the limit.
func TestCountedByTheBroker(t *testing.T) {
	for counts, reason := range map[bool]string{true: reasonWorkerLost, false: reasonMaxAttempts} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 3, "dead"
			h.broker.capabilities.CountsAttempts = counts
			h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil })
			h.start()
			message := protocol.Message{Task: "t"}
			h.broker.put("celery", &fakeMessage{body: encode(t, &message), attempts: 3})
			h.settled()
			require.Equal(t, reason, h.broker.waiting("dead")[0].letter.Reason)
			require.Empty(t, seen[TaskStarted](h.recorder))
		})
	}
}

// TestStartUnnoted: without the note the task runs all the same.
func TestStartUnnoted(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 3, "dead"
		h.broker.fail = func(operation string) error {
			if operation == "note start" {
				return transport.ErrUnconfirmed
			}
			return nil
		}
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return int64(1), nil })
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		h.settled()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		require.Len(t, seen[StartUnnoted](h.recorder), 1)
	})
}

// TestProducersLimit: what a Python producer stamped holds with the queue that it
// named, unless the worker's own is reached sooner.
func TestProducersLimit(t *testing.T) {
	for name, c := range map[string]struct {
		own, asked int
		calls      int64
		queue      string
	}{
		"alone":      {0, 2, 2, "theirs"},
		"less":       {4, 2, 2, "theirs"},
		"more":       {2, 4, 2, "ours"},
		"the same":   {2, 2, 2, "ours"},
		"only to go": {1, 4, 1, "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate = true
				if c.own > 0 {
					h.options.MaxAttempts, h.options.DeadLetterQueue = c.own, "ours"
				}
				var calls atomic.Int64
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
					calls.Add(1)
					return nil, tasks.Reject("again", true)
				})
				h.start()
				message := protocol.Message{Task: "t"}
				h.broker.put("celery", &fakeMessage{body: encode(t, &message), limit: c.asked, limitQueue: "theirs"})
				elapse(time.Hour)
				require.Equal(t, c.calls, calls.Load())
				require.Len(t, h.broker.waiting(c.queue), 1)
				require.Equal(t, reasonMaxAttempts, h.broker.waiting(c.queue)[0].letter.Reason)
			})
		})
	}
}

// TestUnstoredResultCounts: a message that comes back because its result could not
// be stored doesn't do so for ever.
func TestUnstoredResultCounts(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.MaxAttempts, h.options.DeadLetterQueue = true, 2, "dead"
		h.backend.fail = func(protocol.Meta) error { return errors.New("no backend") }
		var calls atomic.Int64
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { calls.Add(1); return int64(1), nil })
		h.start()
		h.send(protocol.Message{Task: "t"})
		elapse(time.Hour)
		require.EqualValues(t, 2, calls.Load())
		letters := h.broker.waiting("dead")
		require.Len(t, letters, 1)
		require.Contains(t, letters[0].letter.Detail, "delivered 2 times, the limit is 2: worker: the result of t[")
		require.Contains(t, letters[0].letter.FirstError, "no backend")
	})
}

func TestMaxAttemptsNeedsAQueue(t *testing.T) {
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.MaxAttempts = "celery@test", 1, 3
	_, err := New(options, tasks.NewRegistry(), nil, nil)
	require.ErrorIs(t, err, ErrOptions)
	for _, name := range []string{"max_attempts", "max_receive_count", "dead_letter_queue"} {
		require.ErrorContains(t, err, name)
	}
	options.MaxAttempts = -1
	_, err = New(options, tasks.NewRegistry(), nil, nil)
	require.ErrorIs(t, err, ErrOptions)
}
