package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// redis is a server of the benchmark's own, without persistence, and one connection to
// it. It speaks as much of the protocol as the benchmark needs.
type redis struct {
	process *process
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

const (
	// redisPatience is how long a server may take to listen.
	redisPatience = 10 * time.Second
	redisPause    = 20 * time.Millisecond
)

func startRedis(ctx context.Context, binary string) (*redis, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r := &redis{address: address}
	if r.process, err = startForeign(ctx, nil, binary, "--bind", host, "--port", port, "--save", "", "--appendonly", "no"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	for {
		var dialer net.Dialer
		if r.conn, err = dialer.DialContext(ctx, "tcp", address); err == nil {
			r.reader = bufio.NewReader(r.conn)
			return r, nil
		}
		if wait(ctx, redisPause) != nil {
			return nil, errors.Join(r.process.failed("connect to", err), r.process.stop())
		}
	}
}

// freeAddress is an address on which nothing listens now.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// wait waits for d, or less if ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *redis) stop() error { return errors.Join(r.conn.Close(), r.process.end()) }

// do sends commands at once and returns the sum of the integers that they answer.
func (r *redis) do(commands ...[]string) (sum int64, err error) {
	var out strings.Builder
	for _, command := range commands {
		fmt.Fprintf(&out, "*%d\r\n", len(command))
		for _, word := range command {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := r.conn.Write([]byte(out.String())); err != nil {
		return 0, fmt.Errorf("redis: send: %w", err)
	}
	for range commands {
		n, err := r.answer()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// answer reads an integer or a status, which counts as 0.
func (r *redis) answer() (int64, error) {
	line, err := r.reader.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("redis: receive: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, ":"):
		return strconv.ParseInt(line[1:], 10, 64)
	case strings.HasPrefix(line, "+"):
		return 0, nil
	default:
		return 0, fmt.Errorf("redis: answered %q", line)
	}
}

func (r *redis) flush() error {
	_, err := r.do([]string{"FLUSHALL"})
	return err
}

// fill publishes messages as kombu does.
func (r *redis) fill(t task, queue string, messages int) error {
	template, err := t.template(queue)
	if err != nil {
		return err
	}
	for sent := 0; sent < messages; {
		commands := make([][]string, min(fillMessages, messages-sent))
		for i := range commands {
			commands[i] = []string{"LPUSH", queue, string(template.next().envelope)}
		}
		if _, err := r.do(commands...); err != nil {
			return err
		}
		sent += len(commands)
	}
	return nil
}
