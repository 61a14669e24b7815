package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

type pair struct {
	X int64 `celery:"x"`
	Y int64 `celery:"y"`
}

func registry(started chan<- struct{}) *tasks.Registry {
	r := tasks.NewRegistry()
	tasks.Handle(r, "test.add", func(_ context.Context, in pair) (int64, error) { return in.X + in.Y, nil })
	tasks.Handle(r, "test.fail", func(context.Context, tasks.None) (any, error) {
		return nil, tasks.NewPythonError("builtins", "ValueError", "no good")
	})
	tasks.Handle(r, "test.patient", func(ctx context.Context, _ tasks.None) (any, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}, tasks.AcksLate())
	return r
}

// run runs the command line to its end.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), registry(nil), args, &o, &e)
	return code, o.String(), e.String()
}

func TestVersion(t *testing.T) {
	code, out, _ := run(t, "version")
	require.Equal(t, exitOK, code)
	require.Equal(t, "lovage dev\n", out)
}

func TestBadConfigurationIsOneLineAndCode2(t *testing.T) {
	file := filepath.Join(t.TempDir(), "celery.yaml")
	for text, want := range map[string]string{
		"worker_concurency: 8":           "worker_concurrency",
		"worker_concurrency: 0":          "at least 1",
		"broker_url: redis://localhost":  "redis",
		"accept_content: [json, soap]":   "soap",
		"task_queues: [a, a]":            "a",
		"task_routes: {a: {queue: 5}}":   `task_routes: "a"`,
		"broker: embedded\nbroker: none": "broker",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for _, command := range [][]string{{"check", "--config", file}, {"--config", file}} {
			code, _, errOut := run(t, command...)
			require.Equal(t, exitUsage, code, "%s: %s", text, errOut)
			require.Contains(t, errOut, want)
			require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
		}
	}
}

func TestCheck(t *testing.T) {
	code, out, errOut := run(t, "check", "--config", "../../configs/quickstart.yaml")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "configuration is valid")
	code, _, errOut = run(t, "check", "task_default_queue=///")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "///")
	for _, settings := range [][]string{
		{"kubemq.tls.enabled=true", "kubemq.tls.ca_file=missing.pem"},
		{"result_backend=kubemq+tls://broker", "kubemq.tls.enabled=true", "kubemq.tls.cert_file=missing.pem", "kubemq.tls.key_file=missing.pem"},
		{"broker=embedded", "embedded_broker.tls.cert_file=missing.pem", "embedded_broker.tls.key_file=missing.pem"},
	} {
		code, _, errOut = run(t, append([]string{"check"}, settings...)...)
		require.Equal(t, exitUsage, code, settings)
		require.Contains(t, errOut, "missing.pem")
	}
	for _, setting := range []string{"unprocessable_queue=%s.", "dead_letter_queue=..."} {
		code, _, errOut = run(t, "check", setting)
		require.Equal(t, exitUsage, code, setting)
		require.Contains(t, errOut, strings.Split(setting, "=")[0])
	}
}

func TestUsageMistakes(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"--nonsense"}, {"call"}, {"health", "--config", "/does/not/exist"}} {
		code, _, errOut := run(t, args...)
		require.Equal(t, exitUsage, code, "%v", args)
		require.NotEmpty(t, errOut)
	}
}

// TestAMisplacedURLIsNotRepeated: a token stands in it, and logs keep what is printed.
func TestAMisplacedURLIsNotRepeated(t *testing.T) {
	const url = "kubemq://:s3cret@broker:50000"
	for _, args := range [][]string{{"health", "--broker", url}, {url}, {"check", url}} {
		code, out, errOut := run(t, args...)
		require.Equal(t, exitUsage, code, "%v", args)
		require.NotContains(t, out+errOut, "s3cret")
	}
}

// service is a worker that runs in this process.
type service struct {
	t    *testing.T
	file string
	log  *lockedBuffer
	code chan int
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	wrote  chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.wrote <- struct{}{}:
	default:
	}
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// await waits until the log has a text.
func (s *service) await(text string) {
	s.t.Helper()
	patience := time.NewTimer(20 * time.Second)
	defer patience.Stop()
	for !strings.Contains(s.log.String(), text) {
		select {
		case <-s.log.wrote:
		case <-patience.C:
			s.t.Fatalf("no %q in the log:\n%s", text, s.log)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func startService(t *testing.T, r *tasks.Registry, flags ...string) *service {
	t.Helper()
	return startServiceWith(t, r, nil, flags...)
}

func startServiceWith(t *testing.T, r *tasks.Registry, options []Option, flags ...string) *service {
	t.Helper()
	s := &service{
		t: t, file: filepath.Join(t.TempDir(), "celery.yaml"),
		log: &lockedBuffer{wrote: make(chan struct{}, 1)}, code: make(chan int, 1),
	}
	text := fmt.Sprintf("broker: embedded\nresult_backend: embedded\nworker_concurrency: 2\n"+
		"embedded_broker: {listen: %q, data_dir: \"\"}\nhealth: {listen: %q}\n", freeAddress(t), freeAddress(t))
	require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
	go func() {
		s.code <- Run(context.Background(), r, append([]string{"--config", s.file}, flags...), s.log, s.log, options...)
	}()
	s.await("ready.")
	return s
}

// signal sends a signal to this process, which the service handles.
func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(os.Getpid(), sig))
}

func (s *service) exitCode() int {
	s.t.Helper()
	select {
	case code := <-s.code:
		return code
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the worker did not stop:\n%s", s.log)
		return 0
	}
}

func TestServeCallAndStop(t *testing.T) {
	s := startService(t, registry(nil))

	code, out, errOut := run(t, "call", "--config", s.file, "test.add", "2", "3")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "5\n", out)
	code, out, _ = run(t, "call", "--config", s.file, "test.add", "2", "--kwarg", "y=40", "--countdown", "1s")
	require.Equal(t, exitOK, code)
	require.Equal(t, "42\n", out)
	code, _, errOut = run(t, "call", "--config", s.file, "test.fail")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "ValueError('no good')")
	code, _, errOut = run(t, "call", "--config", s.file, "no.such")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "NotRegistered")
	code, out, _ = run(t, "call", "--config", s.file, "--no-wait", "test.add", "1", "1")
	require.Equal(t, exitOK, code)
	require.Len(t, strings.TrimSpace(out), 36)

	code, out, errOut = run(t, "health", "--config", s.file)
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "consuming\n", out)
	code, _, _ = run(t, "health", "--config", s.file, "--live")
	require.Equal(t, exitOK, code)

	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
	require.Contains(t, s.log.String(), "Warm shutdown")
	code, _, _ = run(t, "health", "--config", s.file)
	require.Equal(t, exitFailure, code)
}

func TestFlagsBeatTheFile(t *testing.T) {
	s := startService(t, registry(nil), "-c", "3", "-Q", "a,b", "-n", "w1@here", "-l", "debug", "--", "task_acks_late=true")
	require.Contains(t, s.log.String(), "concurrency 3, queues a, b")
	require.Contains(t, s.log.String(), "w1@here ready.")
	s.signal(syscall.SIGHUP)
	require.Equal(t, exitOK, s.exitCode())
}

func TestUSR1DumpsStacksAndUSR2IsIgnored(t *testing.T) {
	s := startService(t, registry(nil))
	s.signal(syscall.SIGUSR2)
	s.signal(syscall.SIGUSR1)
	s.await("goroutine ")
	// Goroutines that have been there for long: the worker's may not have begun yet.
	require.Contains(t, s.log.String(), "pkg/broker")
	s.signal(syscall.SIGQUIT)
	require.Equal(t, exitFailure, s.exitCode())
}

func TestInterruptIsCode1(t *testing.T) {
	s := startService(t, registry(nil))
	s.signal(syscall.SIGINT)
	require.Equal(t, exitFailure, s.exitCode())
}

func TestSecondSignalCancels(t *testing.T) {
	started := make(chan struct{}, 1)
	s := startService(t, registry(started))
	code, _, errOut := run(t, "call", "--config", s.file, "--no-wait", "test.patient")
	require.Equal(t, exitOK, code, errOut)
	<-started
	s.signal(syscall.SIGTERM)
	s.await("Warm shutdown")
	select {
	case <-s.code:
		t.Fatal("it stopped although a task runs")
	default:
	}
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitFailure, s.exitCode())
	require.Contains(t, s.log.String(), "Cold shutdown")
	require.Contains(t, s.log.String(), "handed back: true")
}

// TestColdShutdownEndsWithADeafHandler: one that ignores its context is left behind
// after its grace.
func TestColdShutdownEndsWithADeafHandler(t *testing.T) {
	started, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	r := registry(nil)
	tasks.Handle(r, "test.deaf", func(context.Context, tasks.None) (any, error) {
		started <- struct{}{}
		<-release
		return nil, nil
	})
	s := startService(t, r)
	code, _, errOut := run(t, "call", "--config", s.file, "--no-wait", "test.deaf")
	require.Equal(t, exitOK, code, errOut)
	<-started
	begin := time.Now()
	s.signal(syscall.SIGQUIT)
	require.Equal(t, exitFailure, s.exitCode())
	require.Less(t, time.Since(begin), 9*time.Second, "the grace is five seconds, once")
}

func TestSignalDuringTheStartEndsIt(t *testing.T) {
	log := &lockedBuffer{wrote: make(chan struct{}, 1)}
	s := &service{t: t, log: log, code: make(chan int, 1)}
	address := freeAddress(t) // nobody listens there
	go func() {
		s.code <- Run(context.Background(), registry(nil), []string{"-b", "kubemq://" + address}, log, log)
	}()
	s.await("Cannot connect to " + address)
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}

func TestBrokerCommand(t *testing.T) {
	log := &lockedBuffer{wrote: make(chan struct{}, 1)}
	s := &service{t: t, log: log, code: make(chan int, 1)}
	address, web := freeAddress(t), freeAddress(t)
	go func() {
		s.code <- Run(context.Background(), registry(nil), []string{"broker", "--listen", address, "--http", web, "--data-dir", t.TempDir()}, log, log)
	}()
	s.await("broker ready on " + address)
	require.Contains(t, log.String(), "HTTP on "+web)
	response, err := http.Get("http://" + web + "/health")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	code, out, errOut := run(t, "health", "--broker", address)
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "broker answers")
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}
