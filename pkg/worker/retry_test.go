package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func ptr[T any](v T) *T { return &v }

// TestRetryKeepsTheMessage: everything but the retries and the ETA is as it was,
// also what Celery loses.
func TestRetryKeepsTheMessage(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.AcceptContent = []string{"json", "msgpack"}
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(30*time.Second))
		}, tasks.MaxRetries(5))
		h.start()
		sent := protocol.Message{
			Task: "t", ID: "id", Shadow: "shown", RootID: "root", GroupID: "group", GroupIndex: ptr(2), Retries: 1,
			Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), TimeLimit: 9 * time.Second,
			SoftTimeLimit: 8 * time.Second, Origin: "gen1@host", IgnoreResult: ptr(true), ReplacedTaskNesting: 1,
			StampedHeaders: []string{"s"}, Stamps: map[string]any{"s": "v"}, CustomHeaders: map[string]any{"x-mine": map[string]any{"a": int64(1)}},
			Args: []any{int64(1), "é"}, Kwargs: map[string]any{"k": nil}, ReplyTo: "reply", Priority: 7,
			ContentType: "application/x-msgpack", Compression: "application/x-gzip", ArgsRepr: "(1, 'é')", KwargsRepr: "{'k': None}",
		}
		before := time.Now()
		h.send(sent)
		synctest.Wait()
		published := h.broker.sent()
		require.Len(t, published, 1)
		require.Equal(t, 30*time.Second, published[0].message.Delay)
		require.Equal(t, 7, published[0].message.Priority)
		require.Contains(t, string(published[0].message.Headers), `"retries"`)

		want, got := h.decode(encode(t, &sent)), h.decode(published[0].message.Body)
		require.Equal(t, 2, got.Retries)
		require.WithinDuration(t, before.Add(30*time.Second), got.ETA, time.Second)
		require.Empty(t, got.ParentID, "a null parent stays null")
		got.Retries, got.ETA = want.Retries, want.ETA
		require.Equal(t, want, got)
	})
}

func TestRetrySizeDoesNotGrow(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Second))
		}, tasks.RetryForever())
		h.start()
		h.send(protocol.Message{Task: "t", CustomHeaders: map[string]any{"baggage": "x"}})
		elapse(100 * time.Second)
		synctest.Wait()
		published := h.broker.sent()
		require.Greater(t, len(published), 90)
		require.InDelta(t, len(published[0].message.Body), len(published[len(published)-1].message.Body), 8)
	})
}

func TestRetryWithOtherArguments(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			return nil, tasks.Retry(ctx, nil, tasks.Countdown(0), tasks.RetryArgs("new"), tasks.RetryKwargs(map[string]any{"k": 1}))
		}, tasks.MaxRetries(1))
		h.start()
		id := h.send(protocol.Message{Task: "t", Args: []any{"old"}})
		synctest.Wait()
		got := h.decode(h.broker.sent()[0].message.Body)
		require.Equal(t, []any{"new"}, got.Args)
		require.Equal(t, map[string]any{"k": int64(1)}, got.Kwargs)
		require.Equal(t, "('new',)", got.ArgsRepr)
		require.True(t, got.ETA.IsZero())
		states := h.backend.states(id)
		require.Equal(t, protocol.StateRetry, states[0].Status)
		require.Nil(t, states[0].Result)
		last := states[len(states)-1]
		require.Equal(t, protocol.StateFailure, last.Status)
		require.Equal(t, "MaxRetriesExceededError", last.Result.(protocol.Exception).Type)
	})
}

func TestRetryExhaustedStoresTheCause(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			err := tasks.Retry(ctx, errBoom)
			require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded)
			return nil, err
		}, tasks.MaxRetries(3))
		h.start()
		id := h.send(protocol.Message{Task: "t", Retries: 3})
		synctest.Wait()
		require.Equal(t, []any{"boom"}, h.only(id).Result.(protocol.Exception).Args)
		require.Empty(t, h.broker.sent())
	})
}

func TestRetryThatCannotBePublished(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(h *harness) {
			h.options.AcksLate = late
			h.handle("t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
				return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(0))
			})
			h.broker.fail = func(operation string) error {
				if operation == "publish celery" {
					return errBoom
				}
				return nil
			}
			h.start()
			id := h.send(protocol.Message{Task: "t"})
			elapse(publishPatience + 500*time.Millisecond)
			synctest.Wait()
			if late {
				for _, state := range h.backend.states(id) {
					require.Equal(t, protocol.StateRetry, state.Status, "not failed: it is delivered again")
				}
				require.Contains(t, h.journal.all(), "requeue 1s", "the broker delivers it again")
				require.NotContains(t, h.journal.all(), "ack")
			} else {
				states := h.backend.states(id)
				require.Equal(t, protocol.StateFailure, states[len(states)-1].Status)
			}
			h.broker.mu.Lock()
			h.broker.fail = nil
			h.broker.mu.Unlock()
		})
	}
}
