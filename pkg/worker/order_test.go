package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

var errBoom = errors.New("boom")

// TestOrder holds every outcome to the order that loses nothing: a copy is
// published and confirmed, then the result stored, then told, then settled.
func TestOrder(t *testing.T) {
	ok := func(context.Context, tasks.Arguments) (any, error) { return int64(5), nil }
	returning := func(err error) tasks.HandlerFunc {
		return func(context.Context, tasks.Arguments) (any, error) { return nil, err }
	}
	retry := func(ctx context.Context, _ tasks.Arguments) (any, error) {
		return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
	}
	unencodable := func(context.Context, tasks.Arguments) (any, error) { return make(chan int), nil }
	panics := func(context.Context, tasks.Arguments) (any, error) { panic("ouch") }

	for name, c := range map[string]struct {
		handler tasks.HandlerFunc
		early   []string
		late    []string
	}{
		"success": {
			ok,
			[]string{"ack", "worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded"},
			[]string{"worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded", "ack"},
		},
		"failure": {
			returning(errBoom),
			[]string{"ack", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed"},
			[]string{"worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "ack"},
		},
		"panic": {
			panics,
			[]string{"ack", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed"},
			[]string{"worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "ack"},
		},
		"encode failure": {
			unencodable,
			[]string{"ack", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed"},
			[]string{"worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "ack"},
		},
		"retry": {
			retry,
			[]string{"ack", "worker.TaskStarted", "store RETRY", "publish celery", "worker.TaskRetried"},
			[]string{"worker.TaskStarted", "store RETRY", "publish celery", "worker.TaskRetried", "ack"},
		},
		"ignore": {
			returning(tasks.Ignore("not mine")),
			[]string{"ack", "worker.TaskStarted", "worker.TaskIgnored"},
			[]string{"worker.TaskStarted", "worker.TaskIgnored", "ack"},
		},
		"reject": {
			returning(tasks.Reject("bad", false)),
			[]string{"ack", "worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "dead-letter dead rejected"},
			[]string{"worker.TaskStarted", "store FAILURE", "worker.TaskFailed", "worker.TaskRejected", "dead-letter dead rejected"},
		},
	} {
		for _, late := range []bool{false, true} {
			want := map[bool][]string{false: c.early, true: c.late}[late]
			t.Run(name+map[bool]string{false: " early", true: " late"}[late], func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.options.AcksLate = late
					h.options.DeadLetterQueue = "dead"
					h.handle("t", c.handler)
					h.start()
					h.send(protocol.Message{Task: "t"})
					require.Equal(t, want, h.settled())
				})
			})
		}
	}
}

func TestRejectRequeueIsDeliveredAgainEarlyOrLate(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			var calls atomic.Int64
			h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
				if calls.Add(1) < 3 {
					return nil, tasks.Reject("not now", true)
				}
				return "done", nil
			})
			h.start()
			begin := time.Now()
			id := h.send(protocol.Message{Task: "t"})
			synctest.Wait()
			require.EqualValues(t, 1, calls.Load(), "a requeue is not delivered at once")
			elapse(10 * time.Second)
			synctest.Wait()
			require.EqualValues(t, 3, calls.Load(), "late %v", late)
			require.GreaterOrEqual(t, time.Since(begin), 2*requeueBase)
			require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		})
	}
}

func TestEarlyTaskIsNotRunWhenItsAckIsNotConfirmed(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
			t.Error("ran although the broker will deliver it again")
			return nil, nil
		})
		h.broker.fail = func(operation string) error {
			if operation == "ack" {
				return transport.ErrLost
			}
			return nil
		}
		h.start()
		h.send(protocol.Message{Task: "t"})
		require.Equal(t, []string{"ack failed"}, h.settled())
		require.Len(t, seen[SettleFailed](h.recorder), 1)
	})
}

func TestResultThatCannotBeStoredKeepsALateMessage(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return "x", nil })
		var mended atomic.Bool
		h.backend.fail = func(protocol.Meta) error {
			if !mended.Load() {
				return errBoom
			}
			return nil
		}
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		elapse(storePatience + time.Millisecond)
		synctest.Wait()
		require.NotContains(t, h.journal.all(), "ack")
		require.NotEmpty(t, seen[StoreFailed](h.recorder))
		require.Empty(t, seen[TaskSucceeded](h.recorder))

		mended.Store(true)
		elapse(time.Minute)
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		require.Equal(t, "ack", h.settled()[len(h.settled())-1])
	})
}

func TestResultOfAnEarlyTaskIsTriedAgain(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return "x", nil })
		failures := 3
		h.backend.fail = func(protocol.Meta) error {
			if failures--; failures >= 0 {
				return errBoom
			}
			return nil
		}
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		elapse(20 * time.Second)
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		require.False(t, h.backend.first[id+" SUCCESS"], "an unconfirmed try may have stored a state")
		require.Len(t, seen[StoreFailed](h.recorder), 3)
	})
}

func TestResultTooLargeFailsThatTask(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return "x", nil })
		h.backend.fail = func(m protocol.Meta) error {
			if m.Status == protocol.StateSuccess {
				return transport.ErrTooLarge
			}
			return nil
		}
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(t, protocol.StateFailure, h.only(id).Status)
		require.Empty(t, seen[TaskSucceeded](h.recorder))
		require.Len(t, seen[TaskFailed](h.recorder), 1)
	})
}

// TestRetryIsAckedThoughItsStateCannotBeStored: the copy is published, so the
// original must not run again beside it.
func TestRetryIsAckedThoughItsStateCannotBeStored(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
		})
		h.backend.fail = func(protocol.Meta) error { return errBoom }
		h.start()
		h.send(protocol.Message{Task: "t"})
		elapse(2 * storePatience)
		lines := h.settled()
		require.Equal(t, []string{"worker.TaskStarted", "store RETRY failed", "publish celery", "worker.TaskRetried", "ack"}, lines)
		require.Len(t, h.broker.sent(), 1)
	})
}

func TestStartedDoesNotHoldATaskUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.TrackStarted = true
		h.handle("t", nothing)
		h.backend.fail = func(m protocol.Meta) error {
			if m.Status == protocol.StateStarted {
				return errBoom
			}
			return nil
		}
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
	})
}
