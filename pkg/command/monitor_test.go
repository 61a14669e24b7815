package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/worker"
)

// TestMetricsOfARunningWorker: what a scraper sees after a task, the embedded
// broker's metrics included.
func TestMetricsOfARunningWorker(t *testing.T) {
	s := startService(t, registry(nil), "--", "dead_letter_queue=dead", "health.pprof=true")
	code, _, errOut := run(t, "call", "--config", s.file, "test.add", "2", "3")
	require.Equal(t, exitOK, code, errOut)
	settings, _, err := config.Load(config.Source{Path: s.file})
	require.NoError(t, err)
	text := get(t, "http://"+settings.Health.Listen+"/metrics")
	for _, line := range []string{
		`lovage_tasks_received_total{task="test.add"} 1`, `lovage_tasks_succeeded_total{task="test.add"} 1`,
		`lovage_tasks_failed_total{task="test.add"} 0`, `lovage_task_runtime_seconds_count{task="test.add"} 1`,
		`lovage_task_wait_seconds_count{task="test.add"} 1`, "lovage_slots 2",
		"lovage_connection_up 1", "lovage_connection_reconnects_total 0",
		`lovage_queue_depth{queue="celery",role="tasks"} 0`, `lovage_queue_depth{queue="dead",role="dead_letters"} 0`,
		`lovage_queue_depth{queue="celery.unprocessable",role="unprocessable"} 0`,
		`lovage_broker_queue_messages{queue="celery",state="delayed"} 0`, "go_goroutines ",
	} {
		require.Contains(t, text, "\n"+line)
	}
	require.Contains(t, get(t, "http://"+settings.Health.Listen+"/debug/pprof/"), "goroutine")
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// TestOldestIsAMessageThatIsReady, not one that a worker has.
func TestOldestIsAMessageThatIsReady(t *testing.T) {
	for name, quirks := range map[string]broker.Quirks{"clean": {}, "quirks of 2023": broker.AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, config: broker.Config{Listen: "127.0.0.1:0", Quirks: quirks}}
			r.startBroker()
			t.Cleanup(func() { require.NoError(t, r.broker.Stop()) })
			r.connect()
			settings, _, err := config.Load(config.Source{Overrides: map[string]string{
				"broker_url": "kubemq://" + r.config.Listen, "health.listen": "127.0.0.1:1",
			}})
			require.NoError(t, err)
			m, err := newMonitor(settings, registry(nil), &observe.Connection{}, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.stop()) }()
			oldest := func() string {
				id, err := m.oldest(t.Context(), "celery")
				require.NoError(t, err)
				return id
			}
			require.Empty(t, oldest(), "no such queue")
			r.publish(1, 0)
			first := oldest()
			require.NotEmpty(t, first)
			require.Equal(t, first, oldest(), "it stays")
			depths, err := m.depths(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, depths["celery"])

			consumer, err := r.publisher.Consumer("celery")
			require.NoError(t, err)
			var held transport.Delivery
			require.NoError(t, consumer.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second},
				func(d transport.Delivery) { held = d }))
			require.NotNil(t, held)
			require.Empty(t, oldest(), "in flight")
			require.NoError(t, held.Ack(t.Context()))
			require.NoError(t, consumer.Close())
		})
	}
}

// TestReadySaysWhyNot.
func TestReadySaysWhyNot(t *testing.T) {
	r := newRig(t, broker.Config{})
	require.True(t, r.isReady())
	require.NoError(t, r.broker.Stop())
	r.await("not ready", func() bool { return !r.isReady() })
	p := &program{out: io.Discard, errOut: io.Discard}
	require.ErrorContains(t, p.askHealth(t.Context(), r.listen, "/readyz"), "not connected to the broker")
	r.startBroker()
	r.await("ready", r.isReady)
	r.stack.worker.Cancel()
	require.ErrorContains(t, p.askHealth(t.Context(), r.listen, "/readyz"), "fetches no messages")
	require.NoError(t, p.askHealth(t.Context(), r.listen, "/healthz"), "it lives")
}

// TestAWorkerWhoseTokenIsRefusedIsNotReady: pings need no token, so it is connected.
func TestAWorkerWhoseTokenIsRefusedIsNotReady(t *testing.T) {
	r := newRig(t, broker.Config{})
	restart := func(token string) {
		require.NoError(t, r.broker.Stop())
		r.config.AuthToken = token
		r.startBroker()
	}
	restart("another")
	p := &program{out: io.Discard, errOut: io.Discard}
	r.await("connected and refused", func() bool {
		err := p.askHealth(t.Context(), r.listen, "/readyz")
		return err != nil && strings.Contains(err.Error(), "fetches no messages")
	})
	restart("")
	r.await("ready", r.isReady)
}

// TestAWorkerThatWaitsForItsBrokerLives, and isn't ready.
func TestAWorkerThatWaitsForItsBrokerLives(t *testing.T) {
	log := &lockedBuffer{wrote: make(chan struct{}, 1)}
	s := &service{t: t, log: log, code: make(chan int, 1)}
	nobody, listen := freeAddress(t), freeAddress(t)
	go func() {
		s.code <- Run(context.Background(), registry(nil),
			[]string{"-b", "kubemq://" + nobody, "--", "health.listen=" + listen, "health.watchdog=0.1"}, log, log)
	}()
	s.await("Cannot connect to " + nobody)
	p := &program{out: io.Discard, errOut: io.Discard}
	require.NoError(t, p.askHealth(t.Context(), listen, "/healthz"))
	require.ErrorContains(t, p.askHealth(t.Context(), listen, "/readyz"), "not connected to the broker yet")
	text := get(t, "http://"+listen+"/metrics")
	require.Contains(t, text, "\nlovage_connection_up 0")
	require.Contains(t, text, "\nlovage_slots 0")
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}

// TestGivingUpIsExitCode1: at the start, and after a lost connection.
func TestGivingUpIsExitCode1(t *testing.T) {
	nobody := freeAddress(t)
	for setting, tries := range map[string]string{
		"broker_connection_retry_on_startup=false": "after 1 attempts", "broker_connection_max_retries=2": "after 3 attempts",
	} {
		code, _, errOut := run(t, "-b", "kubemq://"+nobody, "--", setting)
		require.Equal(t, exitFailure, code)
		require.Contains(t, errOut, "gave up "+tries)
		require.Contains(t, errOut, "refused")
	}

	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	log := &lockedBuffer{wrote: make(chan struct{}, 1)}
	s := &service{t: t, log: log, code: make(chan int, 1), file: filepath.Join(t.TempDir(), "celery.yaml")}
	text := fmt.Sprintf("broker_url: kubemq://%s\nbroker_connection_max_retries: 3\n", b.Addr())
	require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
	go func() { s.code <- Run(context.Background(), registry(nil), []string{"--config", s.file}, log, log) }()
	s.await("ready.")
	require.NoError(t, b.Stop())
	require.Equal(t, exitFailure, s.exitCode())
	require.Equal(t, 1, strings.Count(log.String(), "Connection to broker lost"))
	require.Equal(t, 0, strings.Count(log.String(), "Trying again in"), "one line for a change")
	require.Contains(t, log.String(), "the attempts are used up")
	require.Contains(t, log.String(), "Warm shutdown")
}

// TestLoadOfARunningWorker: what the watchdog and the metrics look at.
func TestLoadOfARunningWorker(t *testing.T) {
	r := newRig(t, broker.Config{})
	require.Equal(t, worker.Load{Slots: rigSlots}, r.stack.worker.Load())
	r.publish(3, 5*time.Second) // all three are at work at one time, however slow the machine
	r.await("all run", func() bool { return r.stack.worker.Load().Busy == 3 })
	require.False(t, r.stack.worker.Load().Delivered.IsZero())
	r.await("all are done", func() bool { return r.stack.worker.Load().Busy == 0 })
}
