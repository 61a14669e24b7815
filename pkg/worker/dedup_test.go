package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// counter counts runs by task id, and those that ran while another of the same id
// did.
type counter struct {
	mu            sync.Mutex
	runs, now     map[string]int
	atTheSameTime int
	takes         time.Duration
	ends          func(run int) (any, error)
}

func newCounter(takes time.Duration, ends func(run int) (any, error)) *counter {
	return &counter{runs: map[string]int{}, now: map[string]int{}, takes: takes, ends: ends}
}

func (c *counter) handler(ctx context.Context, _ tasks.Arguments) (any, error) {
	request, _ := tasks.RequestFrom(ctx)
	c.mu.Lock()
	c.runs[request.ID]++
	run := c.runs[request.ID]
	c.now[request.ID]++
	if c.now[request.ID] > 1 {
		c.atTheSameTime++
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now[request.ID]--
		c.mu.Unlock()
	}()
	if pause.For(ctx, c.takes) != nil {
		return nil, context.Cause(ctx)
	}
	return c.ends(run)
}

func (c *counter) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

func succeeds(int) (any, error) { return int64(5), nil }

// twice puts one message on the queue as a broker does that delivers it twice.
func (h *harness) twice(message protocol.Message) (id string, again func()) {
	h.t.Helper()
	body := encode(h.t, &message)
	put := func() { h.broker.put("celery", &fakeMessage{body: body}) }
	put()
	put()
	return message.ID, put
}

// unsettled is how many deliveries are, when nothing moves any more.
func (h *harness) unsettled() int {
	synctest.Wait()
	h.broker.mu.Lock()
	defer h.broker.mu.Unlock()
	return h.broker.inFlight
}

// TestDuplicates: a message that is delivered twice, at once and later, runs as
// often as its outcome asks for, and never twice at the same time.
func TestDuplicates(t *testing.T) {
	failsFirst := func(err error) func(int) (any, error) {
		return func(run int) (any, error) {
			if run == 1 {
				return nil, err
			}
			return int64(run), nil
		}
	}
	for name, c := range map[string]struct {
		ends func(int) (any, error)
		runs int // with three deliveries, early or late
	}{
		"success": {succeeds, 1},
		"failure": {failsFirst(errBoom), 1},
		"ignore":  {failsFirst(tasks.Ignore("no")), 1},
		"requeue": {failsFirst(tasks.Reject("later", true)), 2},
		// It is among the dead letters, and who sends it from there wants it to run.
		"reject":         {failsFirst(tasks.Reject("never", false)), 2},
		"encode failure": {func(int) (any, error) { return make(chan int), nil }, 1},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s late=%t", name, late), func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.options.AcksLate, h.options.Concurrency = late, 4
					h.options.DeadLetterQueue = "dead"
					tasksRun := newCounter(time.Second, c.ends)
					h.handle("t", tasksRun.handler)
					h.start()
					id, again := h.twice(protocol.Message{Task: "t"})
					elapse(time.Minute)
					again()
					elapse(time.Minute)
					require.Equal(t, c.runs, tasksRun.count(id))
					require.Zero(t, tasksRun.atTheSameTime)
					require.Empty(t, h.broker.waiting("celery"))
					require.Zero(t, h.unsettled(), "a duplicate is not settled")
				})
			})
		}
	}
}

// TestNotDuplicates: what has the id of a finished task and is another message.
func TestNotDuplicates(t *testing.T) {
	inBubble(t, func(h *harness) {
		tasksRun := newCounter(0, func(run int) (any, error) { return int64(run), nil })
		h.handle("t", tasksRun.handler)
		h.start()
		message := protocol.Message{Task: "t", ID: uuid.NewString()}
		h.send(message)
		elapse(time.Second)

		h.send(message) // apply_async(task_id=the same)
		elapse(time.Second)
		require.Equal(t, 2, tasksRun.count(message.ID))

		message.Retries = 1
		h.send(message)
		elapse(time.Second)
		require.Equal(t, 3, tasksRun.count(message.ID))
		require.Empty(t, seen[TaskDuplicate](h.recorder))
	})
}

// TestMessageWithoutTag: nothing tells its duplicate from a second sending.
func TestMessageWithoutTag(t *testing.T) {
	inBubble(t, func(h *harness) {
		tasksRun := newCounter(0, succeeds)
		h.handle("t", tasksRun.handler)
		h.start()
		message := protocol.Message{Task: "t"}
		body := encode(t, &message)
		envelope, err := protocol.DecodeEnvelope(body, protocol.DefaultLimits())
		require.NoError(t, err)
		body = bytes.ReplaceAll(body, []byte(`"`+envelope.Properties.DeliveryTag+`"`), []byte("null"))
		for range 2 {
			h.broker.put("celery", &fakeMessage{body: body})
			elapse(time.Second)
		}
		require.Equal(t, 2, tasksRun.count(message.ID))
	})
}

// TestReplayedDeadLetterRuns: what was rejected and is sent again from the dead
// letters, byte for byte, is wanted.
func TestReplayedDeadLetterRuns(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.DeadLetterQueue, h.options.AcksOnFailure = true, "dead", false
		tasksRun := newCounter(0, func(run int) (any, error) {
			if run < 3 {
				return nil, errBoom
			}
			return nil, nil
		})
		h.handle("t", tasksRun.handler)
		h.start()
		id := h.send(protocol.Message{Task: "t"})
		for range 2 {
			elapse(time.Second)
			letters := h.broker.waiting("dead")
			h.broker.put("celery", letters[len(letters)-1])
		}
		elapse(time.Second)
		require.Equal(t, 3, tasksRun.count(id))
	})
}

func TestWindowOff(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.DedupWindow = 0
		tasksRun := newCounter(time.Second, succeeds)
		h.handle("t", tasksRun.handler)
		h.start()
		id, _ := h.twice(protocol.Message{Task: "t"})
		elapse(time.Minute)
		require.Equal(t, 2, tasksRun.count(id))
		require.Equal(t, 1, tasksRun.atTheSameTime, "this is what the window is for")
	})
}

// TestLostAck: a late task has ended, its ack gets lost, the broker delivers the
// message again.
func TestLostAck(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		tasksRun := newCounter(time.Second, succeeds)
		h.handle("t", tasksRun.handler)
		var failed atomic.Bool
		h.broker.fail = func(operation string) error {
			if operation == "ack" && !failed.Swap(true) {
				return transport.ErrLost
			}
			return nil
		}
		h.start()
		message := protocol.Message{Task: "t"}
		body := encode(t, &message)
		h.broker.put("celery", &fakeMessage{body: body})
		elapse(2 * time.Second)
		require.True(t, failed.Load())
		h.broker.put("celery", &fakeMessage{body: body, attempts: 1})
		elapse(time.Second)
		require.Equal(t, 1, tasksRun.count(message.ID))
		require.Equal(t, []string{
			"worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded", "ack failed", "ack",
		}, h.settled())
	})
}

// TestEarlyAckThatFailedRunsLater: the message was not run here, so what the broker
// delivers again is not a duplicate.
func TestEarlyAckThatFailedRunsLater(t *testing.T) {
	inBubble(t, func(h *harness) {
		tasksRun := newCounter(0, succeeds)
		h.handle("t", tasksRun.handler)
		var lost atomic.Bool
		lost.Store(true)
		h.broker.fail = func(operation string) error {
			if operation == "ack" && lost.Load() {
				return transport.ErrLost
			}
			return nil
		}
		h.start()
		message := protocol.Message{Task: "t"}
		body := encode(t, &message)
		h.broker.put("celery", &fakeMessage{body: body})
		elapse(time.Second)
		require.Zero(t, tasksRun.count(message.ID))
		lost.Store(false)
		h.broker.put("celery", &fakeMessage{body: body, attempts: 1})
		elapse(time.Second)
		require.Equal(t, 1, tasksRun.count(message.ID))
	})
}

// TestGoexitEndsTheClaim: a duplicate of it doesn't wait for ever.
func TestGoexitEndsTheClaim(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate, h.options.RejectOnWorkerLost = true, true
		tasksRun := newCounter(time.Second, func(run int) (any, error) {
			if run == 1 {
				runtime.Goexit()
			}
			return int64(run), nil
		})
		h.handle("t", tasksRun.handler)
		h.start()
		id, _ := h.twice(protocol.Message{Task: "t"})
		elapse(time.Minute)
		require.Equal(t, 2, tasksRun.count(id))
		require.Equal(t, int64(2), h.only(id).Result)
	})
}

// TestDuplicateOfWhatHasExpiredMeanwhile must not store REVOKED over the result.
func TestDuplicateOfWhatHasExpiredMeanwhile(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		tasksRun := newCounter(time.Minute, func(int) (any, error) { return nil, errBoom })
		h.handle("t", tasksRun.handler)
		h.start()
		id, again := h.twice(protocol.Message{Task: "t", Expires: time.Now().Add(time.Second)})
		elapse(time.Hour)
		again()
		elapse(time.Minute)
		require.Equal(t, protocol.StateFailure, h.only(id).Status)
		require.Empty(t, seen[TaskRevoked](h.recorder))
	})
}

// TestDuplicateWaitsForTheShutdown: it is acked once the run that it waits for has
// finished; another worker would run it again.
func TestDuplicateWaitsForTheShutdown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		tasksRun := newCounter(time.Minute, succeeds)
		h.handle("t", tasksRun.handler)
		h.start()
		h.twice(protocol.Message{Task: "t"})
		elapse(time.Second)
		require.NoError(t, h.worker.Stop(context.Background()))
		require.Empty(t, h.broker.waiting("celery"))
		require.Len(t, seen[TaskDuplicate](h.recorder), 1)
	})
}

// TestDuplicateGoesBackAtAColdShutdown with the run that it waits for.
func TestDuplicateGoesBackAtAColdShutdown(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		tasksRun := newCounter(time.Hour, succeeds)
		h.handle("t", tasksRun.handler)
		h.start()
		id, _ := h.twice(protocol.Message{Task: "t"})
		elapse(time.Second)
		h.worker.Cancel()
		require.NoError(t, h.worker.Stop(context.Background()))
		require.Equal(t, 1, tasksRun.count(id))
		require.Len(t, h.broker.waiting("celery"), 2)
	})
}

// TestManyDuplicatesDoNotFillTheSlots: what finds no place to wait goes back to the
// broker for a while.
func TestManyDuplicatesDoNotFillTheSlots(t *testing.T) {
	inBubble(t, func(h *harness) {
		tasksRun := newCounter(time.Minute, succeeds)
		h.handle("t", tasksRun.handler)
		h.handle("other", func(context.Context, tasks.Arguments) (any, error) { return nil, nil })
		w, err := New(h.options, h.registry, h.broker, h.backend, h.recorder)
		require.NoError(t, err)
		w.held = newParking(3)
		require.NoError(t, w.Start(context.Background()))
		h.worker = w
		id, again := h.twice(protocol.Message{Task: "t"})
		for range 10 {
			again()
		}
		elapse(5 * time.Second)
		h.send(protocol.Message{Task: "other"})
		elapse(5 * time.Second)
		require.Len(t, seen[TaskSucceeded](h.recorder), 1, "the other task found a slot")
		elapse(time.Hour)
		require.Equal(t, 1, tasksRun.count(id))
		require.Len(t, seen[TaskDuplicate](h.recorder), 11)
		require.Zero(t, h.unsettled())
	})
}

// TestNothingRunsTwice is what the 2023 KubeMQ server does where several consumers
// share a queue, and worse: of 2,000 tasks each comes two to four times, spread over
// the time in which the others run.
func TestNothingRunsTwice(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate, h.options.Concurrency = late, 8
			tasksRun := newCounter(20*time.Millisecond, succeeds)
			h.handle("t", tasksRun.handler)
			h.start()
			for i := range 2000 {
				_, again := h.twice(protocol.Message{Task: "t"})
				for n := range i % 3 {
					time.AfterFunc(time.Duration(i*7%100+n)*time.Millisecond, again)
				}
			}
			elapse(time.Minute)
			synctest.Wait()
			require.Len(t, tasksRun.runs, 2000)
			for id, runs := range tasksRun.runs {
				require.Equal(t, 1, runs, id)
			}
			require.Len(t, seen[TaskSucceeded](h.recorder), 2000)
			require.Len(t, seen[TaskDuplicate](h.recorder), 2000+1999)
		})
	}
}

// readable is a backend that can be read.
type readable struct {
	*fakeBackend
	stored protocol.Meta
	err    error
}

func (b readable) Fetch(context.Context, string) (protocol.Meta, error) { return b.stored, b.err }

// TestDeduplicateSuccessful: which tasks are not run because their result is there.
func TestDeduplicateSuccessful(t *testing.T) {
	success := protocol.Meta{Status: protocol.StateSuccess, Result: "stored"}
	skipped := []string{"worker.TaskSucceeded", "ack"}
	run := []string{"worker.TaskStarted", "store SUCCESS", "worker.TaskSucceeded", "ack"}
	for name, c := range map[string]struct {
		change   func(o *Options, b *readable, capabilities *transport.Capabilities)
		attempts int // before this delivery
		want     []string
	}{
		"redelivered": {func(*Options, *readable, *transport.Capabilities) {}, 1, skipped},
		"a broker that doesn't tell": {
			func(*Options, *readable, *transport.Capabilities) {}, 0, skipped,
		},
		"not redelivered": {
			func(_ *Options, _ *readable, c *transport.Capabilities) { c.CountsAttempts = true }, 0, run,
		},
		"off":          {func(o *Options, _ *readable, _ *transport.Capabilities) { o.DeduplicateSuccessful = false }, 1, run},
		"failed":       {func(_ *Options, b *readable, _ *transport.Capabilities) { b.stored.Status = protocol.StateFailure }, 1, run},
		"retried":      {func(_ *Options, b *readable, _ *transport.Capabilities) { b.stored.Status = protocol.StateRetry }, 1, run},
		"not stored":   {func(_ *Options, b *readable, _ *transport.Capabilities) { b.err = results.ErrNotFound }, 1, run},
		"unreadable":   {func(_ *Options, b *readable, _ *transport.Capabilities) { b.err = errors.New("down") }, 1, run},
		"early":        {func(o *Options, _ *readable, _ *transport.Capabilities) { o.AcksLate = false }, 1, append([]string{"ack"}, run[:3]...)},
		"not wanted":   {func(o *Options, _ *readable, _ *transport.Capabilities) { o.IgnoreResult = true }, 1, []string{run[0], run[2], run[3]}},
		"size is zero": {func(o *Options, _ *readable, _ *transport.Capabilities) { o.DedupWindow = 0 }, 1, skipped},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.DeduplicateSuccessful = true, true
				backend := readable{fakeBackend: h.backend, stored: success}
				c.change(&h.options, &backend, &h.broker.capabilities)
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) { return "new", nil })
				hooks := &successCounter{}
				h.registry.AddHook(hooks)
				w, err := New(h.options, h.registry, h.broker, backend, h.recorder)
				require.NoError(t, err)
				require.NoError(t, w.Start(context.Background()))
				h.worker = w

				message := protocol.Message{Task: "t"}
				h.broker.put("celery", &fakeMessage{body: encode(t, &message), attempts: c.attempts})
				require.Equal(t, c.want, h.settled())
				ended := seen[TaskSucceeded](h.recorder)
				require.Len(t, ended, 1)
				if len(c.want) == len(skipped) {
					require.Equal(t, "stored", ended[0].Result)
					require.Equal(t, []TaskDuplicate{{Request: ended[0].Request, Stored: true}}, seen[TaskDuplicate](h.recorder))
					require.Zero(t, hooks.successes, "the run that stored the result called it")
				} else {
					require.Equal(t, "new", ended[0].Result)
					require.Equal(t, 1, hooks.successes)
				}
				require.Len(t, seen[LookFailed](h.recorder), map[bool]int{true: 1}[name == "unreadable"])
			})
		})
	}
}

type successCounter struct{ successes int }

func (r *successCounter) OnSuccess(context.Context, *tasks.Request, any) { r.successes++ }

// TestASkippedTaskKeepsItsChain: a success that is stored without what follows may
// have been stored by somebody who publishes after that (celery#9835). One that lists
// it has been followed, and what follows must not run twice.
func TestASkippedTaskKeepsItsChain(t *testing.T) {
	child := []any{[]any{[]any{"id of second", nil}, nil}}
	for name, c := range map[string]struct {
		children []any
		want     []string
	}{
		"nothing followed": {nil, []string{
			"publish link.a", "publish link.b", "publish second", "worker.TaskSucceeded", "ack",
		}},
		"followed": {child, []string{"worker.TaskSucceeded", "ack"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate, h.options.DeduplicateSuccessful = true, true
				h.handle("t", returning("new", nil))
				w, err := New(h.options, h.registry, h.broker, readable{fakeBackend: h.backend, stored: protocol.Meta{
					Status: protocol.StateSuccess, Result: "stored", Children: c.children,
				}}, h.recorder)
				require.NoError(t, err)
				require.NoError(t, w.Start(context.Background()))
				h.worker = w

				message := workflow()
				h.broker.put("celery", &fakeMessage{body: encode(t, &message), attempts: 1})
				require.Equal(t, c.want, h.settled())
				if c.children == nil {
					require.Equal(t, []any{"stored", int64(10)}, h.published("second")[0].Args)
				}
			})
		})
	}
}
