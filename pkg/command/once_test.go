package command

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
)

// onceRegistry has a task that runs once for each value of x, and counts its runs.
func onceRegistry() (*tasks.Registry, *onceresult.Store, chan int64) {
	store, runs := onceresult.Unbound(), make(chan int64, 10)
	once := tasks.Once(store, tasks.OncePer(func(in pair) string { return string(rune('a' + in.X)) }), tasks.OnceCountdown(time.Second))
	r := tasks.NewRegistry()
	tasks.Handle(r, "test.once", func(_ context.Context, in pair) (int64, error) {
		runs <- in.X
		return in.Y, nil
	}, tasks.Wrap(once))
	return r, store, runs
}

// TestOnceInTheWorkersOwnBackend: the embedded broker's, which a program can't reach
// before its worker runs.
func TestOnceInTheWorkersOwnBackend(t *testing.T) {
	r, store, runs := onceRegistry()
	s := startServiceWith(t, r, []Option{WithOnceResults(store)})
	for _, y := range []string{"1", "2"} {
		code, out, errOut := run(t, "call", "--config", s.file, "test.once", "0", y)
		require.Equal(t, exitOK, code, errOut)
		require.Equal(t, "1", strings.TrimSpace(out), "the first call's result")
	}
	require.Len(t, runs, 1)
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}

func TestOnceWithoutResultsIsRefused(t *testing.T) {
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	r, store, _ := onceRegistry()
	var out bytes.Buffer
	code := Run(t.Context(), r, []string{"-b", "kubemq://" + b.Addr().String()}, &out, &out, WithOnceResults(store))
	require.Equal(t, exitUsage, code)
	require.Contains(t, out.String(), "set result_backend")
}
