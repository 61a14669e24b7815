package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run calls a task as a worker does, after so many retries.
func run(t *testing.T, name, url string, retries int) error {
	t.Helper()
	r := registry(tasks.NewOnceMemory())
	require.NoError(t, r.Err())
	task, known := r.Lookup(name)
	require.True(t, known, name)
	ctx := tasks.WithRequest(t.Context(), &tasks.Request{
		ID: "id", Task: name, Retries: retries, MaxRetries: task.Options().MaxRetries,
	})
	_, err := task.Run(ctx, tasks.Arguments{Args: []any{url}})
	return err
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		task    string
		retries int
		wait    time.Duration
	}{
		{"guide.fetch", 0, time.Minute},
		{"guide.backoff", 0, time.Second},
		{"guide.backoff", 3, 8 * time.Second},
		{"guide.pay", 0, 0},
	} {
		var retry *tasks.RetryError
		require.ErrorAs(t, run(t, test.task, "", test.retries), &retry, test.task)
		require.Equal(t, test.wait, retry.Countdown, "%s after %d retries", test.task, test.retries)
		require.ErrorIs(t, retry, errTimeout)
	}
	require.NoError(t, run(t, "guide.fetch", "https://example.org", 0))
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	err := run(t, "guide.pay", "", 1)
	require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded)
	require.ErrorIs(t, err, errTimeout)
	require.Equal(t, "Exception", tasks.ExceptionOf(err).Type, "the cause is what is stored")
}

func TestDivert(t *testing.T) {
	t.Parallel()
	var retry *tasks.RetryError
	require.ErrorAs(t, run(t, "guide.divert", "x", 0), &retry)
	require.Equal(t, "slow", retry.Queue)
	require.Equal(t, 1, *retry.Priority)
	require.Equal(t, []any{"x?mirror=2"}, retry.Args)
}

func TestPageIsRetriedForEver(t *testing.T) {
	t.Parallel()
	r := registry(tasks.NewOnceMemory())
	task, _ := r.Lookup("guide.page")
	require.Equal(t, tasks.RetryLimitless, task.Options().MaxRetries)
	require.Equal(t, time.Minute, task.Options().DefaultRetryDelay)
}

func TestAutomatic(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"busy", "broken"} {
		var retry *tasks.RetryError
		require.ErrorAs(t, run(t, "guide.crawl", url, 2), &retry, url)
		require.LessOrEqual(t, retry.Countdown, 8*time.Second)
	}
	err := run(t, "guide.crawl", "gone", 0)
	_, ended := tasks.OutcomeOf(err)
	require.False(t, ended, "not retried")
	require.ErrorIs(t, err, errGone)
	require.NoError(t, run(t, "guide.crawl", "fine", 0))
}

func TestRejectAndIgnore(t *testing.T) {
	t.Parallel()
	var rejected *tasks.RejectError
	require.ErrorAs(t, run(t, "guide.route", "elsewhere", 0), &rejected)
	require.True(t, rejected.Requeue)
	require.ErrorAs(t, run(t, "guide.route", "poison", 0), &rejected)
	require.False(t, rejected.Requeue)
	var ignored *tasks.IgnoreError
	require.ErrorAs(t, run(t, "guide.route", "seen", 0), &ignored)
}

func TestPythonClass(t *testing.T) {
	t.Parallel()
	err := run(t, "guide.lookup", "", 0)
	exception := tasks.ExceptionOf(err)
	require.Equal(t, "shop.errors.OrderNotFound", exception.Module+"."+exception.Type)
	require.ErrorIs(t, err, errNoSuchOrder)
}

// TestChargesOnce: the first success is the result of all calls for the order, and a
// failure none.
func TestChargesOnce(t *testing.T) {
	t.Parallel()
	task, known := registry(tasks.NewOnceMemory()).Lookup("guide.charge")
	require.True(t, known)
	call := func(order string, cents int64) (any, error) {
		return task.Run(t.Context(), tasks.Arguments{Args: []any{order, cents}})
	}
	_, err := call("A-17", 0)
	require.ErrorIs(t, err, errTimeout)
	for _, cents := range []int64{990, 0} {
		receipt, err := call("A-17", cents)
		require.NoError(t, err)
		require.Equal(t, "receipt of A-17", receipt)
	}
	_, err = call("A-18", 0)
	require.ErrorIs(t, err, errTimeout, "another order")
}

// TestChargeID is what Python's deterministic_id("guide.charge", "A-17", 990) returns.
func TestChargeID(t *testing.T) {
	t.Parallel()
	id, err := chargeID("A-17", 990)
	require.NoError(t, err)
	require.Equal(t, "c9a2666d-84fe-5712-afc8-5566697426d0", id)
}

// TestHooks: what the guide's hooks are registered for calls them without a panic.
func TestHooks(t *testing.T) {
	t.Parallel()
	r := registry(tasks.NewOnceMemory())
	request := &tasks.Request{ID: "id", Task: "guide.invoice"}
	require.NoError(t, r.Hooks().Prerun(context.Background(), request))
	require.NoError(t, r.Hooks().Postrun(context.Background(), request, "SUCCESS", 1, nil))
	require.NoError(t, r.Hooks().DeadLetter(context.Background(), "id", errTimeout))
}
