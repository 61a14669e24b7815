package worker

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func nothing(context.Context, tasks.Arguments) (any, error) { return nil, nil }

// TestPoison: every message that makes a real worker exit or drop it is kept,
// with a reason, and the worker goes on.
func TestPoison(t *testing.T) {
	raw, err := os.ReadFile("testdata/behaviour_poison.json")
	require.NoError(t, err)
	var file struct {
		Cases map[string]struct {
			Raw      string `json:"raw_pushed"`
			Survived bool   `json:"worker_survived"`
		} `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	died := 0
	for name, c := range file.Cases {
		if c.Survived {
			continue
		}
		died++
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.handle("proj.add", nothing)
				h.start()
				h.broker.put("celery", &fakeMessage{body: []byte(c.Raw)})
				synctest.Wait()
				kept := h.broker.waiting("celery.unprocessable")
				require.Len(t, kept, 1)
				require.Equal(t, c.Raw, string(kept[0].body), "the raw bytes are kept")
				require.NotEmpty(t, kept[0].letter.Reason)
				require.NotEmpty(t, kept[0].letter.Detail)

				id := h.send(protocol.Message{Task: "proj.add"})
				synctest.Wait()
				require.Equal(t, protocol.StateSuccess, h.only(id).Status, "the worker goes on")
			})
		})
	}
	require.Equal(t, 13, died)
}

func TestUnprocessableQueueCanBeOff(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.UnprocessableQueue = ""
		h.start()
		h.broker.put("celery", &fakeMessage{body: []byte("not json")})
		require.Equal(t, []string{"ack"}, h.settled())
		require.Empty(t, seen[MessageUnprocessable](h.recorder)[0].KeptIn)
	})
}

func TestUnknownTask(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.start()
		id := h.send(protocol.Message{Task: "no.such"})
		require.Equal(t, []string{"store FAILURE", "dead-letter celery.unprocessable unregistered"}, h.settled())
		meta := h.only(id)
		require.Equal(t, protocol.Exception{
			Type: "NotRegistered", Module: "celery.exceptions", Args: []any{"no.such"},
		}, meta.Result)
		require.Empty(t, meta.Traceback)
	})
}

func TestUnknownTaskIsHandedToOthersFirst(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.UnknownTask, h.options.UnknownAttempts = UnknownRequeue, 4
		h.start()
		h.send(protocol.Message{Task: "no.such"})
		elapse(time.Hour)
		require.Equal(t, []string{
			"requeue 1s", "requeue 2s", "requeue 4s", "store FAILURE", "dead-letter celery.unprocessable unregistered",
		}, h.settled())
	})
}

func TestWhatCannotBePublishedIsRefusedBeforeItRuns(t *testing.T) {
	chord := protocol.Signature{
		Task: "celery.chord", SubtaskType: "chord",
		Kwargs: map[string]any{"header": []any{}, "body": next("body").Value(), "kwargs": map[string]any{}},
	}
	pickled := next("next")
	pickled.Options["serializer"] = "pickle"
	for name, message := range map[string]protocol.Message{
		"link":       {Callbacks: []protocol.Signature{chord}},
		"link_error": {Errbacks: []protocol.Signature{chord}},
		"chain":      {Chain: []protocol.Signature{chord}},
		"serializer": {Chain: []protocol.Signature{pickled}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
					t.Error("ran half a workflow")
					return nil, nil
				})
				h.start()
				message.Task = "t"
				id := h.send(message)
				lines := h.settled()
				require.Equal(t, "dead-letter celery.unprocessable unsupported", lines[len(lines)-1])
				require.Equal(t, "NotImplementedError", h.only(id).Result.(protocol.Exception).Type)
			})
		})
	}
}

func TestExpired(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
			t.Error("ran although it is expired")
			return nil, nil
		})
		h.start()
		id := h.send(protocol.Message{Task: "t", Expires: time.Now().Add(-time.Second)})
		require.Equal(t, []string{"store REVOKED", "worker.TaskRevoked", "ack"}, h.settled())
		require.Equal(t, protocol.Exception{
			Type: "TaskRevokedError", Module: "celery.exceptions", Args: []any{"expired"},
		}, h.only(id).Result)
		require.True(t, seen[TaskRevoked](h.recorder)[0].Expired)
		require.Empty(t, seen[TaskReceived](h.recorder), "Celery sends no task-received for it")
	})
}

func TestExpiredWhileItWaitsForItsETA(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		h.start()
		id := h.send(protocol.Message{Task: "t", ETA: time.Now().Add(500 * time.Millisecond), Expires: time.Now().Add(100 * time.Millisecond)})
		elapse(time.Second)
		synctest.Wait()
		require.Equal(t, protocol.StateRevoked, h.only(id).Status)
	})
}

// TestETA: the broker holds what it can, in hops at its maximum; a task never
// runs early and never more than once.
func TestETA(t *testing.T) {
	for name, c := range map[string]struct {
		wait   time.Duration
		delays []time.Duration
	}{
		"past":           {-time.Hour, nil},
		"below a tick":   {700 * time.Millisecond, nil},
		"whole ticks":    {30 * time.Second, []time.Duration{30 * time.Second}},
		"rounded down":   {30*time.Second + 900*time.Millisecond, []time.Duration{30 * time.Second}},
		"beyond maximum": {150 * time.Minute, []time.Duration{time.Hour, time.Hour, 30 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				var ran []time.Time
				h.handle("t", func(context.Context, tasks.Arguments) (any, error) {
					ran = append(ran, time.Now())
					return nil, nil
				})
				h.start()
				eta := time.Now().Add(c.wait)
				h.send(protocol.Message{Task: "t", ETA: eta, Priority: 4})
				elapse(4 * time.Hour)
				synctest.Wait()
				require.Len(t, ran, 1)
				require.False(t, ran[0].Before(eta.Truncate(time.Microsecond)), "never early")
				require.WithinDuration(t, later(eta, ran[0]), ran[0], time.Second)
				var delays []time.Duration //nolint:prealloc // nil where it did not wait with the broker
				for _, event := range seen[TaskPostponed](h.recorder) {
					delays = append(delays, event.Delay)
				}
				require.Equal(t, c.delays, delays)
				require.Len(t, seen[TaskReceived](h.recorder), 1)
				require.Equal(t, 1, seen[TaskStarted](h.recorder)[0].Request.Attempt, "waiting is no attempt")
			})
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b.Add(-time.Minute)) { // an ETA in the past is due now
		return b
	}
	return a
}

// TestPostponingIsTheBrokersWork: the copy and the ack are one settlement.
func TestPostponingIsTheBrokersWork(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", nothing)
		h.start()
		h.send(protocol.Message{Task: "t", ETA: time.Now().Add(time.Minute)})
		require.Equal(t, []string{"postpone 1m0s"}, h.settled())
	})
}

// TestWaitingForAnETAHoldsNoSlot: countdowns below the broker's tick must not
// keep other tasks from running.
func TestWaitingForAnETAHoldsNoSlot(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Concurrency = 1
		h.handle("t", nothing)
		h.start()
		for range 50 {
			h.send(protocol.Message{Task: "t", ETA: time.Now().Add(900 * time.Millisecond)})
		}
		synctest.Wait()
		id := h.send(protocol.Message{Task: "t"})
		synctest.Wait()
		require.Equal(t, protocol.StateSuccess, h.only(id).Status)
		elapse(time.Second)
		synctest.Wait()
		require.Len(t, seen[TaskSucceeded](h.recorder), 51)
	})
}

func TestArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args any
		text string
	}{
		"null": {nil, "NoneType"},
		"int":  {int64(5), "int"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.handle("proj.add", nothing)
				h.start()
				message := protocol.Message{Task: "proj.add", Args: []any{}}
				body := encode(t, &message)
				envelope, err := protocol.DecodeEnvelope(body, protocol.DefaultLimits())
				require.NoError(t, err)
				envelope.Body, _, _, err = protocol.Serialize("json", []any{c.args, map[string]any{}, nil})
				require.NoError(t, err)
				body, err = envelope.Encode()
				require.NoError(t, err)
				h.broker.put("celery", &fakeMessage{body: body})
				synctest.Wait()
				exception := h.only(message.ID).Result.(protocol.Exception)
				require.Equal(t, "TypeError", exception.Type)
				require.Equal(t, "builtins", exception.Module)
				require.Contains(t, exception.Args[0], c.text)
			})
		})
	}
}
