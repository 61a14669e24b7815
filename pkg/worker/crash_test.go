package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// crashChildAddress makes the test binary a worker at this address instead of a test
// run, so that its handler can take the process down. crashChildQueue names its queue,
// crashChildCounts tells it that the broker counts.
const (
	crashChildAddress = "LOVAGE_WORKER_CRASH_ADDRESS"
	crashChildQueue   = "LOVAGE_WORKER_CRASH_QUEUE"
	crashChildCounts  = "LOVAGE_WORKER_CRASH_COUNTED"
	crashCode         = 41
)

// crashChild runs a worker until its handler ends the process, or the message has
// become a dead letter, which it says on stdout, or its parent is gone.
func crashChild(address string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := runCrashWorker(ctx, address); err != nil {
		panic(err)
	}
}

func runCrashWorker(ctx context.Context, address string) (err error) {
	server := kubemq.Config{Address: address, CountsAttempts: os.Getenv(crashChildCounts) != ""}
	connection, err := kubemq.New(server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Stop()) }()
	backend, err := resultskubemq.New(resultskubemq.Config{Connection: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Stop()) }()
	if err := errors.Join(connection.Start(ctx), backend.Start(ctx)); err != nil {
		return err
	}
	registry := tasks.NewRegistry()
	exit := func(context.Context, tasks.Arguments) (any, error) {
		os.Exit(crashCode) //nolint:forbidigo // that is what is tested
		return nil, nil
	}
	tasks.HandleArguments(registry, "exits late", exit, tasks.AcksLate())
	tasks.HandleArguments(registry, "exits early", exit)
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@crash", 1, []string{os.Getenv(crashChildQueue)}
	options.MaxAttempts, options.DeadLetterQueue, options.TrackStarted = 3, os.Getenv(crashChildQueue)+".dead", true
	ended := make(chan DeadLettered, 1)
	w, err := New(options, registry, connection, backend, observerFunc(func(event Event) {
		if letter, is := event.(DeadLettered); is {
			ended <- letter
		}
	}))
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	select {
	case letter := <-ended:
		_, err = fmt.Fprintln(os.Stdout, "dead letter:", letter.Reason)
	case <-ctx.Done():
	}
	return errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
}

type observerFunc func(Event)

func (f observerFunc) Observe(event Event) { f(event) }

// crash starts a worker process and waits for its end: line is what it said, "" if
// its handler took it down.
func (l *live) crash(t *testing.T, queue string, counted bool) (line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), livePatience)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0])
	command.Env = append(os.Environ(), crashChildAddress+"="+l.address, crashChildQueue+"="+queue)
	if counted {
		command.Env = append(command.Env, crashChildCounts+"=1")
	}
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, _ = bufio.NewReader(stdout).ReadString('\n') // io.EOF: it says nothing
	err = command.Wait()
	if line == "" {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, crashCode, exit.ExitCode(), "the handler has ended the process")
		return ""
	}
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// TestHandlerThatEndsTheProcess is T-38: after max_attempts deliveries the message is
// in the dead-letter queue with the reason worker-lost, whatever the broker counts,
// and the caller gets Celery's failure.
func TestHandlerThatEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  broker.Config
		counted bool // the worker knows that the broker counts
		// forgets: a broker that counts without the worker's knowledge moves the message
		// away from its notes, which expire.
		forgets bool
	}{
		"embedded":          {config: broker.Config{}},
		"embedded, on disk": {config: broker.Config{DataDir: t.TempDir()}},
		"quirks of 2023":    {config: broker.Config{Quirks: broker.AllQuirks()}},
		"counted":           {config: broker.Config{CountCrashes: true}, counted: true},
		"counted unknown":   {config: broker.Config{CountCrashes: true}, forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLive(t, c.config)
			id := l.crashThrice(t, "crash", c.counted)
			if !c.forgets {
				require.Equal(t, map[string]int64{"crash.dead": 1, "celery-result-" + id: 1}, l.depths(t), "no notes are left")
			}
		})
	}
}

// crashThrice sends a message whose handler ends the process, and has it tried as often
// as it may be.
func (l *live) crashThrice(t *testing.T, queue string, counted bool) (id string) {
	t.Helper()
	id = uuid.NewString()
	sent := l.send(t, l.transport(t), protocol.Message{Task: "exits late", ID: id, Queue: queue})
	for attempt := 1; attempt <= 3; attempt++ {
		require.Empty(t, l.crash(t, queue, counted), "attempt %d", attempt)
	}
	require.Equal(t, "dead letter: worker-lost", l.crash(t, queue, counted))

	messages, err := l.client.Peek(t.Context(), queue+".dead", 1, time.Second)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, sent.Body, messages[0].Body)
	require.Equal(t, string(sent.Headers), messages[0].Metadata)
	letter := kubemq.LetterOf(messages[0])
	require.Equal(t, "worker-lost", letter.Reason)
	require.Equal(t, "exits late", letter.Task)
	require.Equal(t, id, letter.ID)
	require.Equal(t, queue, letter.From)
	meta, err := l.backend.Fetch(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, protocol.StateFailure, meta.Status)
	exception, ok := meta.Result.(protocol.Exception)
	require.True(t, ok)
	require.Equal(t, "WorkerLostError", exception.Type)
	require.Contains(t, exception.Args[0], "Worker exited prematurely")
	return id
}

// TestEarlyHandlerThatEndsTheProcess: the message was acked, so it is gone, as in
// Celery.
func TestEarlyHandlerThatEndsTheProcess(t *testing.T) {
	t.Parallel()
	l := startLive(t, broker.Config{})
	id := uuid.NewString()
	l.send(t, l.transport(t), protocol.Message{Task: "exits early", ID: id, Queue: "crash"})
	require.Empty(t, l.crash(t, "crash", false))
	meta, err := l.backend.Fetch(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, protocol.StateStarted, meta.Status)
	require.NotContains(t, l.depths(t), "crash")
}
