package tasks_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func TestReject(t *testing.T) {
	for _, requeue := range []bool{true, false} {
		err := fmt.Errorf("wrapped: %w", tasks.Reject("bad order", requeue))
		outcome, ok := tasks.OutcomeOf(err)
		require.True(t, ok)
		require.Equal(t, &tasks.RejectError{Reason: "bad order", Requeue: requeue}, outcome)
		require.Equal(t, protocol.Exception{
			Type: "Reject", Module: "celery.exceptions", Args: []any{"bad order", requeue},
		}, tasks.ExceptionOf(err))
	}
	require.EqualError(t, tasks.Reject("x", true), "tasks: rejected and requeued: x")
	require.EqualError(t, tasks.Reject("x", false), "tasks: rejected: x")
}

func TestIgnore(t *testing.T) {
	err := errors.Join(errors.New("other"), tasks.Ignore("done before"))
	outcome, ok := tasks.OutcomeOf(err)
	require.True(t, ok)
	require.Equal(t, &tasks.IgnoreError{Reason: "done before"}, outcome)
	require.EqualError(t, outcome, "tasks: ignored: done before")
	require.Equal(t, protocol.Exception{Type: "Ignore", Module: "celery.exceptions", Args: []any{"done before"}}, tasks.ExceptionOf(outcome))
}

func TestOutermostOutcomeCounts(t *testing.T) {
	rejected := tasks.Reject("no", true)
	outcome, ok := tasks.OutcomeOf(tasks.Retry(inWorker(t, 0, 3), rejected))
	require.True(t, ok)
	require.IsType(t, &tasks.RetryError{}, outcome)

	// Exhausted: a failure, although its cause is a Reject.
	outcome, ok = tasks.OutcomeOf(tasks.Retry(inWorker(t, 3, 3), rejected))
	require.True(t, ok)
	require.IsType(t, &tasks.ExhaustedError{}, outcome)
}

func TestOrdinaryErrorIsNoOutcome(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), &tasks.PanicError{Value: "x"}, &tasks.ArgumentError{}} {
		_, ok := tasks.OutcomeOf(err)
		require.False(t, ok)
	}
}
