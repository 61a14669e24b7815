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
	"strings"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// child is a server in another process.
type child struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Reader
	address string
}

func startChild(ctx context.Context, o options, s subject) (*child, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-serve", s.serve, "-data", s.data}
	if o.profile != "" {
		args = append(args, "-profile", o.profile)
	}
	c := &child{command: exec.CommandContext(ctx, path, args...)} //nolint:gosec // the program starts itself
	c.command.Stderr = os.Stderr
	if c.stdin, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewReader(stdout)
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	first, err := c.read()
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.address = first.Address
	return c, nil
}

// state asks the child what it allocated so far.
func (c *child) state() (state, error) {
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		return state{}, err
	}
	return c.read()
}

func (c *child) read() (state, error) {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return state{}, fmt.Errorf("read from the child: %w", err)
	}
	var s state
	err = json.Unmarshal(line, &s)
	return s, err
}

func (c *child) stop() error {
	return errors.Join(c.stdin.Close(), c.command.Wait())
}

// resident is the memory of the child's process that is in RAM, in bytes.
func (c *child) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("the kernel reports no resident memory")
}

// connect opens a connection of its own: one client.
func (c *child) connect() (pb.KubemqClient, func(), error) {
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return pb.NewKubemqClient(conn), func() { _ = conn.Close() }, nil
}
