package worker

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// next is a signature for a queue of its name, which nobody consumes.
func next(name string) protocol.Signature {
	return protocol.Signature{
		Task: name, Args: []any{int64(10)}, Kwargs: map[string]any{},
		Options: map[string]any{"task_id": "id of " + name, "queue": name},
	}
}

// workflow is a message that asks for everything: two callbacks, two more steps
// (the last one first) and an errback.
func workflow() protocol.Message {
	return protocol.Message{
		Task: "t", ID: "first", RootID: "root",
		Callbacks: []protocol.Signature{next("link.a"), next("link.b")},
		Chain:     []protocol.Signature{next("third"), next("second")},
		Errbacks:  []protocol.Signature{next("errback")},
	}
}

func returning(value any, err error) tasks.HandlerFunc {
	return func(context.Context, tasks.Arguments) (any, error) { return value, err }
}

// published are the messages that were sent to a queue.
func (h *harness) published(queue string) []*protocol.Message {
	h.t.Helper()
	var found []*protocol.Message
	for _, sent := range h.broker.sent() {
		if sent.queue == queue {
			found = append(found, h.decode(sent.message.Body))
		}
	}
	return found
}

// failPublishing makes publishing to a queue fail with err.
func (h *harness) failPublishing(queue string, err error) {
	h.broker.fail = func(operation string) error {
		if operation == "publish "+queue {
			return err
		}
		return nil
	}
}

// heal lets everything succeed again, so that the worker can stop.
func (h *harness) heal() {
	h.broker.mu.Lock()
	defer h.broker.mu.Unlock()
	h.broker.fail = nil
}

func TestContinuationOrder(t *testing.T) {
	success := []string{"publish link.a", "publish link.b", "publish second", "store SUCCESS", "worker.TaskSucceeded"}
	failure := []string{"store FAILURE", "store FAILURE", "store FAILURE", "publish errback", "worker.TaskFailed"}
	rejected := []string{"store FAILURE", "store FAILURE", "store FAILURE", "publish errback", "worker.TaskFailed", "worker.TaskRejected"}
	goexit := func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, nil }
	retry := func(ctx context.Context, _ tasks.Arguments) (any, error) {
		return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Hour))
	}
	for name, c := range map[string]struct {
		handler tasks.HandlerFunc
		then    []string // between the start of the task and its late ack
	}{
		"success":        {returning(int64(5), nil), success},
		"failure":        {returning(nil, errBoom), failure},
		"encode failure": {returning(make(chan int), nil), failure},
		"worker lost":    {goexit, failure},
		"reject":         {returning(nil, tasks.Reject("bad", false)), rejected},
		"ignore":         {returning(nil, tasks.Ignore("not mine")), []string{"worker.TaskIgnored"}},
		"retry":          {retry, []string{"store RETRY", "publish celery", "worker.TaskRetried"}},
		"retry exhausted": {func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.MaxRetriesFor(0))
		}, failure},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate = true
				h.handle("t", c.handler)
				h.start()
				h.send(workflow())
				require.Equal(t, append(append([]string{"worker.TaskStarted"}, c.then...), "ack"), h.settled())
			})
		})
	}
}

func TestExpiredTaskCallsNobody(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(nil, nil))
		h.start()
		message := workflow()
		message.Expires = time.Now().Add(-time.Second)
		h.send(message)
		require.Equal(t, []string{"store REVOKED", "worker.TaskRevoked", "ack"}, h.settled())
	})
}

func TestSuccessIsContinued(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(int64(5), nil))
		h.start()
		h.send(workflow())
		synctest.Wait()
		second := h.published("second")[0]
		require.Equal(t, []any{int64(5), int64(10)}, second.Args)
		require.Equal(t, [3]string{"id of second", "root", "first"}, [3]string{second.ID, second.RootID, second.ParentID})
		require.Equal(t, []protocol.Signature{next("third")}, second.Chain)
		require.Equal(t, "celery@test", second.Origin)
		link := h.published("link.b")[0]
		require.Equal(t, 1, *link.GroupIndex)
		require.NotEmpty(t, link.GroupID)

		id := func(name string) any { return []any{[]any{"id of " + name, nil}, nil} }
		require.Equal(t, []any{
			[]any{[]any{link.GroupID, nil}, []any{id("link.a"), id("link.b")}}, id("second"),
		}, h.only("first").Children)
	})
}

func TestFailureIsTheRestsToo(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(nil, errBoom))
		h.start()
		h.send(workflow())
		synctest.Wait()
		failed := h.only("first")
		for _, name := range []string{"second", "third"} {
			meta := h.only("id of " + name)
			require.Equal(t, protocol.StateFailure, meta.Status)
			require.Equal(t, failed.Result, meta.Result)
			require.Equal(t, failed.Traceback, meta.Traceback)
		}
		errback := h.published("errback")[0]
		require.Equal(t, []any{"first", int64(10)}, errback.Args)
		require.Equal(t, [2]string{"root", "first"}, [2]string{errback.RootID, errback.ParentID})
		require.Empty(t, failed.Children)
	})
}

func TestFailureOfAnIgnoredResultIsNotStoredForTheRest(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(nil, errBoom), tasks.IgnoreResult())
		h.start()
		h.send(workflow())
		require.Equal(t, []string{"ack", "worker.TaskStarted", "publish errback", "worker.TaskFailed"}, h.settled())
	})
}

// TestRetriedTaskContinuesOnce: T-25, a step that is retried and delivered again.
func TestRetriedTaskContinuesOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcksLate = true
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			request, _ := tasks.RequestFrom(ctx)
			if request.Retries < 2 {
				return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Second))
			}
			return int64(request.Retries), nil
		})
		h.start()
		h.send(workflow())
		elapse(10 * time.Second)
		synctest.Wait()
		require.Len(t, h.published("second"), 1)
		require.Equal(t, []any{int64(2), int64(10)}, h.published("second")[0].Args)
		require.Len(t, h.published("link.a"), 1)
	})
}

func TestTaskThatRunsTwiceContinuesWithTheSameIDs(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(int64(5), nil))
		h.handle("f", returning(nil, errBoom))
		h.start()
		message := workflow()
		message.Callbacks = []protocol.Signature{{Task: "a", Options: map[string]any{"queue": "a"}}, {Task: "b", Options: map[string]any{"queue": "b"}}}
		message.Errbacks = []protocol.Signature{{Task: "e", Options: map[string]any{"queue": "e"}}}
		for _, task := range []string{"t", "t", "f", "f"} {
			message.Task = task
			h.send(message)
			synctest.Wait()
		}
		ids := map[string]bool{}
		for _, queue := range []string{"a", "b", "e"} {
			twice := h.published(queue)
			require.Len(t, twice, 2)
			require.Equal(t, twice[0].ID, twice[1].ID)
			require.Equal(t, twice[0].GroupID, twice[1].GroupID)
			ids[twice[0].ID] = true
		}
		require.Len(t, ids, 3)
	})
}

func TestContinuationThatCannotBePublished(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		err  error
		want string
	}{
		"late, broker away":  {true, errBoom, "worker.TaskRejected requeue 1s"},
		"early, broker away": {false, errBoom, "store FAILURE store FAILURE store FAILURE publish errback worker.TaskFailed"},
		"late, too large":    {true, transport.ErrTooLarge, "store FAILURE store FAILURE store FAILURE publish errback worker.TaskFailed ack"},
		"early, too large":   {false, transport.ErrTooLarge, "store FAILURE store FAILURE store FAILURE publish errback worker.TaskFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.options.AcksLate = c.late
				h.handle("t", returning(int64(5), nil))
				h.failPublishing("second", c.err)
				h.start()
				h.send(workflow())
				elapse(publishPatience + 500*time.Millisecond)
				lines := strings.Join(h.settled(), " ")
				_, after, _ := strings.Cut(lines, "publish second failed")
				after = strings.TrimSpace(strings.ReplaceAll(after, "publish second failed", ""))
				require.True(t, strings.HasPrefix(strings.Join(strings.Fields(after), " "), c.want), after)
				if strings.Contains(c.want, "FAILURE") {
					exception := h.only("first").Result.(protocol.Exception)
					require.Equal(t, [2]string{"kombu.exceptions", "OperationalError"}, [2]string{exception.Module, exception.Type})
					require.Contains(t, exception.Args[0], `second[id of second] to queue "second"`)
				}
				h.heal()
			})
		})
	}
}

func TestBigGroup(t *testing.T) {
	const size = 3*publishersOfGroup + 1
	members := make([]any, size)
	for i := range members {
		sig := next("member")
		sig.Args, sig.Options = []any{int64(i)}, map[string]any{"queue": "members"}
		members[i] = sig.Value()
	}
	group := protocol.Signature{Task: "celery.group", SubtaskType: "group", Kwargs: map[string]any{"tasks": members}}
	for _, broken := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.handle("t", returning(int64(5), nil))
			if broken {
				h.failPublishing("members", transport.ErrTooLarge)
			}
			h.start()
			id := h.send(protocol.Message{Task: "t", Chain: []protocol.Signature{group}})
			synctest.Wait()
			published := h.published("members")
			if broken {
				require.Equal(t, protocol.StateFailure, h.only(id).Status)
				require.Empty(t, published)
				return
			}
			require.Equal(t, protocol.StateSuccess, h.only(id).Status)
			indexes := map[int]bool{}
			for _, m := range published {
				require.Equal(t, []any{int64(5), int64(*m.GroupIndex)}, m.Args)
				indexes[*m.GroupIndex] = true
			}
			require.Len(t, indexes, size)
		})
	}
}

func TestErrbackThatCannotBePublished(t *testing.T) {
	for late, want := range map[bool]string{true: "requeue 1s", false: "worker.TaskFailed"} {
		unwanted := map[bool]string{true: "worker.TaskFailed", false: "requeue 1s"}[late]
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			h.handle("t", returning(nil, errBoom))
			h.failPublishing("errback", errBoom)
			h.start()
			h.send(workflow())
			elapse(publishPatience + 500*time.Millisecond)
			require.Contains(t, h.settled(), want)
			require.NotContains(t, h.settled(), unwanted)
			h.heal()
		})
	}
}

func TestErrbacksOfAnEarlyTaskDoNotNeedTheBackend(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(nil, errBoom))
		h.backend.fail = func(protocol.Meta) error { return errBoom }
		h.start()
		h.send(workflow())
		elapse(3 * storePatience)
		synctest.Wait()
		require.Len(t, h.published("errback"), 1)
	})
}

// TestResultTooLargeDoesNotFailWhatRuns: the next step was published, so its
// result is its own.
func TestResultTooLargeDoesNotFailWhatRuns(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(int64(5), nil))
		h.backend.fail = func(m protocol.Meta) error {
			if m.Status == protocol.StateSuccess {
				return transport.ErrTooLarge
			}
			return nil
		}
		h.start()
		h.send(workflow())
		synctest.Wait()
		require.Equal(t, protocol.StateFailure, h.only("first").Status)
		require.Empty(t, h.backend.states("id of second"))
		require.Len(t, h.published("errback"), 1)
	})
}

func TestContinuationIsPublishedAsItsSignatureSays(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.TaskCompression = "bzip2"
		h.options.TaskRoutes = canvas.NewRoutes([][]canvas.Route{{{Task: "rou*", Options: map[string]any{"queue": "routed"}}}})
		h.options.TaskDefaultQueue = "default"
		h.handle("t", returning(int64(5), nil))
		h.handle("own", returning(nil, nil), tasks.Serializer("yaml"))
		h.start()
		sig := next("options")
		for name, value := range map[string]any{
			"countdown": 90.5, "serializer": "msgpack", "compression": "gzip", "priority": int64(6), "delivery_mode": int64(1), "x-extra": "kept",
		} {
			sig.Options[name] = value
		}
		message := workflow()
		message.Callbacks = []protocol.Signature{sig, {Task: "own"}, {Task: "routed"}}
		h.send(message)
		synctest.Wait()

		sent := map[string]transport.Outgoing{}
		envelopes := map[string]*protocol.Envelope{}
		for _, p := range h.broker.sent() {
			envelope, err := protocol.DecodeEnvelope(p.message.Body, protocol.DefaultLimits())
			require.NoError(t, err)
			sent[p.queue], envelopes[p.queue] = p.message, envelope
		}
		require.Equal(t, 90*time.Second, sent["options"].Delay)
		require.Equal(t, 6, sent["options"].Priority)
		require.Contains(t, string(sent["options"].Headers), `"task": "options"`)
		options := envelopes["options"]
		require.Equal(t, "application/x-msgpack", options.ContentType)
		require.Equal(t, "application/x-gzip", options.Headers["compression"])
		require.Equal(t, 1, options.Properties.DeliveryMode)
		require.Equal(t, "kept", options.Properties.Extra["x-extra"])
		require.Equal(t, "application/x-yaml", envelopes["default"].ContentType)
		require.Equal(t, "application/x-bz2", envelopes["default"].Headers["compression"])
		require.Equal(t, "application/json", envelopes["routed"].ContentType)
		require.Equal(t, 2, envelopes["routed"].Properties.DeliveryMode)
	})
}

// TestChordMemberLeavesAResult: the join is another worker's, and it waits for
// the result of every member.
func TestChordMemberLeavesAResult(t *testing.T) {
	body := next("body")
	for name, c := range map[string]struct {
		handler tasks.HandlerFunc
		want    protocol.State
		result  any
	}{
		"success": {returning(int64(5), nil), protocol.StateSuccess, int64(5)},
		"ignored": {returning(nil, tasks.Ignore("not mine")), protocol.StateSuccess, nil},
		"failure": {returning(nil, errBoom), protocol.StateFailure, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.handle("t", c.handler, tasks.IgnoreResult())
				h.start()
				id := h.send(protocol.Message{Task: "t", GroupID: "g", Chord: &body})
				synctest.Wait()
				meta := h.only(id)
				require.Equal(t, c.want, meta.Status)
				require.Equal(t, "g", meta.GroupID)
				if c.want == protocol.StateSuccess {
					require.Equal(t, c.result, meta.Result)
				}
				require.Empty(t, h.broker.sent())
			})
		})
	}
}

func TestChordMemberIsRefusedWithoutABackend(t *testing.T) {
	inBubble(t, func(h *harness) {
		body := next("body")
		h.handle("t", returning(nil, nil))
		w, err := New(h.options, h.registry, h.broker, nil, h.recorder)
		require.NoError(t, err)
		require.NoError(t, w.Start(context.Background()))
		h.worker = w
		h.send(protocol.Message{Task: "t", Chord: &body})
		require.Equal(t, []string{"dead-letter celery.unprocessable unsupported"}, h.settled())
	})
}

// TestChordThatNobodyJoinsFails: its caller waits for the body.
func TestChordThatNobodyJoinsFails(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.start()
		body := next("body")
		id := h.send(protocol.Message{Task: canvas.ChordUnlock, Args: []any{"group", body.Value()}})
		require.Equal(t, []string{"store FAILURE", "store FAILURE", "dead-letter celery.unprocessable unregistered"}, h.settled())
		require.Equal(t, "NotRegistered", h.only(id).Result.(protocol.Exception).Type)
		require.Equal(t, "ChordError", h.only("id of body").Result.(protocol.Exception).Type)
	})
}

func TestRefusalIsTheRestsToo(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", returning(nil, nil))
		h.start()
		chord := next("chord")
		chord.SubtaskType = "chord"
		h.send(protocol.Message{Task: "t", ID: "id", Chain: []protocol.Signature{next("last"), chord}})
		require.Equal(t, []string{"store FAILURE", "store FAILURE", "store FAILURE", "dead-letter celery.unprocessable unsupported"}, h.settled())
		require.Equal(t, "NotImplementedError", h.only("id of last").Result.(protocol.Exception).Type)
	})
}
