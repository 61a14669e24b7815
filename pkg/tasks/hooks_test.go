package tasks_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// recorder has all hooks.
type recorder struct{ calls []string }

func (h *recorder) add(format string, args ...any) {
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
}

func (h *recorder) OnReceived(_ context.Context, request *tasks.Request) {
	h.add("received %s", request.ID)
}

func (h *recorder) OnPrerun(_ context.Context, request *tasks.Request) {
	h.add("prerun %s", request.ID)
}

func (h *recorder) OnPostrun(_ context.Context, request *tasks.Request, state string, result any, err error) {
	h.add("postrun %s %s %v %v", request.ID, state, result, err)
}

func (h *recorder) OnSuccess(_ context.Context, request *tasks.Request, result any) {
	h.add("success %s %v", request.ID, result)
}

func (h *recorder) OnFailure(_ context.Context, request *tasks.Request, err error) {
	h.add("failure %s %v", request.ID, err)
}

func (h *recorder) OnExhausted(_ context.Context, request *tasks.Request, err *tasks.ExhaustedError) {
	h.add("exhausted %s %v", request.ID, err.Cause)
}

func (h *recorder) OnRetry(_ context.Context, request *tasks.Request, retry *tasks.RetryError) {
	h.add("retry %s %v", request.ID, retry.Cause)
}

func (h *recorder) OnRevoked(_ context.Context, request *tasks.Request, expired bool) {
	h.add("revoked %s %t", request.ID, expired)
}

func (h *recorder) OnRejected(_ context.Context, rejection tasks.Rejection) {
	h.add("rejected %s %s %t", rejection.Queue, rejection.Reason, rejection.Requeue)
}

func (h *recorder) OnUnknown(_ context.Context, task, id, queue string) {
	h.add("unknown %s %s %s", task, id, queue)
}

func (h *recorder) OnDeadLetter(_ context.Context, id string, err error) {
	h.add("dead letter %s %v", id, err)
}

type failing struct{}

func (failing) OnFailure(context.Context, *tasks.Request, error) { panic("hook is broken") }

func TestHooks(t *testing.T) {
	r := tasks.NewRegistry()
	record := &recorder{}
	r.AddHook(failing{})
	r.AddHook(record)
	require.NoError(t, r.Err())
	hooks, request, ctx := r.Hooks(), &tasks.Request{ID: "1"}, t.Context()

	require.NoError(t, hooks.Received(ctx, request))
	require.NoError(t, hooks.Prerun(ctx, request))
	require.NoError(t, hooks.Success(ctx, request, "done"))
	require.NoError(t, hooks.Retry(ctx, request, &tasks.RetryError{Cause: io.EOF}))
	require.NoError(t, hooks.Revoked(ctx, request, true))
	require.NoError(t, hooks.Rejected(ctx, tasks.Rejection{Queue: "q", Reason: "no", Requeue: true}))
	require.NoError(t, hooks.Unknown(ctx, "task", "id", "q"))
	require.NoError(t, hooks.DeadLetter(ctx, "id", io.EOF))
	require.NoError(t, hooks.Postrun(ctx, request, "SUCCESS", "done", nil))
	err := hooks.Failure(ctx, request, io.EOF)

	var panicked *tasks.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "hook is broken", panicked.Value)
	require.Contains(t, panicked.Stack, "failing.OnFailure")
	require.Equal(t, []string{
		"received 1", "prerun 1", "success 1 done", "retry 1 EOF", "revoked 1 true", "rejected q no true",
		"unknown task id q", "dead letter id EOF", "postrun 1 SUCCESS done <nil>", "failure 1 EOF",
	}, record.calls)
}

// TestExhaustedHook: it is called before the failure, also where the handler has
// put something around the error.
func TestExhaustedHook(t *testing.T) {
	r := tasks.NewRegistry()
	record := &recorder{}
	r.AddHook(record)
	err := fmt.Errorf("charging: %w", tasks.Retry(inWorker(t, 3, 3), io.EOF))
	require.NoError(t, r.Hooks().Failure(t.Context(), &tasks.Request{ID: "1"}, err))
	require.Equal(t, []string{"exhausted 1 EOF", "failure 1 " + err.Error()}, record.calls)
}

// TestTaskHooks: as in Celery the task's own come first.
func TestTaskHooks(t *testing.T) {
	r := tasks.NewRegistry()
	record := &recorder{}
	r.AddHook(record)
	tasks.HandleArguments(r, "t", nothing,
		tasks.OnSuccess(func(_ context.Context, request *tasks.Request, result any) {
			record.add("own success %s %v", request.ID, result)
		}),
		tasks.OnFailure(func(_ context.Context, request *tasks.Request, err error) {
			record.add("own failure %s %v", request.ID, err)
		}),
		tasks.OnExhausted(func(_ context.Context, request *tasks.Request, err *tasks.ExhaustedError) {
			record.add("own exhausted %s %v", request.ID, err.Cause)
		}),
		tasks.OnRetry(func(_ context.Context, request *tasks.Request, retry *tasks.RetryError) {
			record.add("own retry %s %v", request.ID, retry.Cause)
		}),
	)
	hooks, request, ctx := lookup(t, r, "t").Hooks().Then(r.Hooks()), &tasks.Request{ID: "1"}, t.Context()
	require.NoError(t, hooks.Success(ctx, request, 7))
	require.NoError(t, hooks.Retry(ctx, request, &tasks.RetryError{Cause: io.EOF}))
	require.NoError(t, hooks.Failure(ctx, request, &tasks.ExhaustedError{Cause: io.EOF}))
	require.Equal(t, []string{
		"own success 1 7", "success 1 7", "own retry 1 EOF", "retry 1 EOF", "own exhausted 1 EOF", "exhausted 1 EOF",
		"own failure 1 tasks: can't retry []: the maximum of retries is exceeded: EOF",
		"failure 1 tasks: can't retry []: the maximum of retries is exceeded: EOF",
	}, record.calls)
}

func TestNilTaskHookIsAMistake(t *testing.T) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "t", nothing, tasks.OnRetry(nil))
	require.EqualError(t, r.Err(), `tasks: can't register "t": OnRetry: the hook is nil`)
}
