package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/lovage-project/lovage/bench/meter"
)

const (
	// stopPatience is how long a process may take to end by itself.
	stopPatience = 20 * time.Second
	// keptOutput is how much of what a process says is kept, for when it fails.
	keptOutput = 4 << 10
)

// process is a program that runs beside the benchmark. It ends with its standard input,
// so it does not outlive the benchmark, and gets a signal too.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Reader
	output  *tail
	started time.Time
}

// startProcess runs a program with variables added to the environment.
func startProcess(ctx context.Context, variables []string, path string, args ...string) (*process, error) {
	p := &process{command: exec.CommandContext(ctx, path, args...), output: &tail{}} //nolint:gosec // the benchmark's own programs
	p.command.Env = append(os.Environ(), variables...)
	p.command.Stderr = p.output
	p.command.Cancel = func() error { p.kill(); return nil }
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children can be ended too
	var err error
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReader(stdout)
	p.started = time.Now()
	return p, p.command.Start()
}

// guard is a shell's program that becomes another one, and kills it when the standard
// input ends.
const guard = `exec 3<&0; { cat <&3 >/dev/null; kill -9 0; } & exec "$@" 3<&- </dev/null`

// startForeign runs a program that does not end with its standard input by itself.
func startForeign(ctx context.Context, variables []string, path string, args ...string) (*process, error) {
	return startProcess(ctx, variables, "/bin/sh", append([]string{"-c", guard, "sh", path}, args...)...)
}

// startSelf runs this program in the role of a child.
func startSelf(ctx context.Context, role string, args ...string) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, nil, path, append([]string{"-child", role}, args...)...)
}

// ask sends a line and decodes the answer.
func (p *process) ask(request string, answer any) error {
	if _, err := io.WriteString(p.stdin, request+"\n"); err != nil {
		return p.failed("ask", err)
	}
	return p.read(answer)
}

func (p *process) read(answer any) error {
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		return p.failed("read from", err)
	}
	return json.Unmarshal(line, answer)
}

// state asks a process that has a meter.
func (p *process) state() (s meter.State, err error) {
	err = p.ask("", &s)
	return s, err
}

func (p *process) failed(operation string, err error) error {
	return fmt.Errorf("%s %s: %w: %s", operation, p.command.Path, err, p.output.text())
}

// stop ends the process and whatever it has started, and waits for it.
func (p *process) stop() error {
	err := p.stdin.Close()
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	killer := time.AfterFunc(stopPatience, p.kill)
	waited := p.command.Wait()
	if !killer.Stop() {
		return errors.Join(err, p.failed("stop", errors.New("it had to be killed")))
	}
	p.kill() // children that it left behind
	var exit *exec.ExitError
	if errors.As(waited, &exit) {
		return err // how it ends because of the signal is its own business
	}
	return errors.Join(err, waited)
}

// end kills the process and its children, and waits for it: for peers whose backlog is
// thrown away, because their own way to stop takes long.
func (p *process) end() error {
	p.kill()
	_ = p.command.Wait() // it was killed
	return nil
}

func (p *process) kill() { _ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) }

// ended tells that a process which should run has ended.
func (p *process) ended() error {
	if syscall.Kill(p.command.Process.Pid, 0) == nil && !isZombie(p.command.Process.Pid) {
		return nil
	}
	return p.failed("run", errors.New("it has ended"))
}
