package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
)

// TestAutoscale: a worker that finds messages begins with a slot for each, and a scraper
// sees the depth and the slots that it led to.
func TestAutoscale(t *testing.T) {
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	defer func() { require.NoError(t, b.Stop()) }()
	s := &service{
		t: t, file: filepath.Join(t.TempDir(), "celery.yaml"),
		log: &lockedBuffer{wrote: make(chan struct{}, 1)}, code: make(chan int, 1),
	}
	listen := freeAddress(t)
	require.NoError(t, os.WriteFile(s.file,
		fmt.Appendf(nil, "broker_url: kubemq://%s\nhealth: {listen: %q}\n", b.Addr(), listen), 0o600))
	for range 3 {
		code, _, errOut := run(t, "call", "--no-wait", "--config", s.file, "test.patient")
		require.Equal(t, exitOK, code, errOut)
	}
	started := make(chan struct{})
	go func() {
		s.code <- Run(context.Background(), registry(started), []string{"--config", s.file, "--autoscale", "5,2"}, s.log, s.log)
	}()
	for range 3 {
		<-started
	}
	s.await("concurrency 2 to 5,")
	s.await("Scaling up from 2 to 3 slots for 3 messages.")
	text := get(t, "http://"+listen+"/metrics")
	require.Contains(t, text, "\nlovage_slots 3\n")
	require.Contains(t, text, "\nlovage_slots_busy 3\n")
	require.Contains(t, text, `lovage_queue_depth{queue="celery",role="tasks"} 3`+"\n")
	s.signal(syscall.SIGQUIT)
	require.Equal(t, exitFailure, s.exitCode())
}

// TestAutoscaleFlag: Celery's --autoscale is max,min, or max alone.
func TestAutoscaleFlag(t *testing.T) {
	for value, want := range map[string]map[string]string{
		"4":    {"worker_autoscale.max": "4"},
		"10,3": {"worker_autoscale.max": "10", "worker_autoscale.min": "3"},
	} {
		var p program
		p.rootCommand()
		require.NoError(t, p.flags.set.Parse([]string{"--autoscale=" + value}))
		overrides, err := p.flags.overrides(nil)
		require.NoError(t, err)
		require.Equal(t, want, overrides)
	}
	for value, problem := range map[string]string{
		"3,10": "worker_autoscale.min", "3,1,2": "worker_autoscale.min", "0": "worker_autoscale.max", "x,1": "worker_autoscale.max",
		"": "max,min", "5,": "max,min", ",5": "max,min",
	} {
		code, _, errOut := run(t, "--autoscale", value)
		require.Equal(t, exitUsage, code, value)
		require.Contains(t, errOut, problem, value)
	}
	code, out, errOut := run(t, "check", "worker_autoscale.max=8", "worker_autoscale.min=3")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "3 to 8 slots")
}
