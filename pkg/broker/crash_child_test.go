package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crashChildDir makes the test binary a broker on this directory instead of a
// test run, so that a test can kill it.
const crashChildDir = "LOVAGE_BROKER_CRASH_DIR"

// crashChild runs a broker until its parent is gone or it ends by itself. It prints
// its address, or what ended it.
func crashChild(dir string) {
	limitFiles()
	b, err := New(Config{Listen: "127.0.0.1:0", DataDir: dir})
	if err == nil {
		err = b.Start(context.Background())
	}
	if err != nil {
		endChild(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "listening", b.Addr())
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphaned)
	}()
	select {
	case <-orphaned:
		err = b.Stop()
	case <-b.Done():
		err = b.Err()
	}
	if err != nil {
		endChild(err)
	}
}

// endChild tells the parent why the broker ended.
func endChild(err error) {
	_, _ = fmt.Fprintln(os.Stdout, "ended", err)
	os.Exit(1) //nolint:forbidigo // the child process of a test
}

// childBroker is a broker in a process of its own.
type childBroker struct {
	address string // once it listens
	command *exec.Cmd
	stdin   io.Closer
	lines   *bufio.Reader // what it prints
}

// startChild starts a broker and waits until it listens.
func startChild(t *testing.T, dir string) *childBroker {
	t.Helper()
	child := launchChild(t, dir)
	line, err := child.lines.ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	require.True(t, ok, line)
	child.address = address
	return child
}

// launchChild starts a broker that opens its store while this returns.
func launchChild(t *testing.T, dir string, env ...string) *childBroker {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), crashChildDir+"="+dir)
	command.Env = append(command.Env, env...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	return &childBroker{command: command, stdin: stdin, lines: bufio.NewReader(stdout)}
}

// kill ends the process as kill -9 does.
func (c *childBroker) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.command.Process.Kill())
	require.Error(t, c.command.Wait(), "it was killed")
	_ = c.stdin.Close()
}

// stop ends the process in an orderly way.
func (c *childBroker) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	require.NoError(t, c.command.Wait())
}
