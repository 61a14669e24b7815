package tasks_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

type recorder struct{ calls []string }

func (h *recorder) OnSuccess(_ context.Context, request *tasks.Request, result any) {
	h.calls = append(h.calls, "success "+request.ID+" "+result.(string))
}

func (h *recorder) OnFailure(_ context.Context, request *tasks.Request, err error) {
	h.calls = append(h.calls, "failure "+request.ID+" "+err.Error())
}

func (h *recorder) OnRetry(_ context.Context, request *tasks.Request, retry *tasks.RetryError) {
	h.calls = append(h.calls, "retry "+request.ID+" "+retry.Cause.Error())
}

type failing struct{}

func (failing) OnFailure(context.Context, *tasks.Request, error) { panic("hook is broken") }

func TestHooks(t *testing.T) {
	r := tasks.NewRegistry()
	record := &recorder{}
	r.AddHook(failing{})
	r.AddHook(record)
	require.NoError(t, r.Err())
	hooks, request := r.Hooks(), &tasks.Request{ID: "1"}

	require.NoError(t, hooks.Success(t.Context(), request, "done"))
	require.NoError(t, hooks.Retry(t.Context(), request, &tasks.RetryError{Cause: io.EOF}))
	err := hooks.Failure(t.Context(), request, io.EOF)

	var panicked *tasks.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "hook is broken", panicked.Value)
	require.Contains(t, panicked.Stack, "failing.OnFailure")
	require.Equal(t, []string{"success 1 done", "retry 1 EOF", "failure 1 EOF"}, record.calls)
}
