// Command asynq is the peer of that name: "asynq fill N BYTES" enqueues tasks,
// "asynq work SLOTS" runs them until the end of its standard input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// fillers enqueue at the same time.
const fillers = 16

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench/peers/asynq:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: asynq fill N BYTES | asynq work SLOTS")
	}
	redis := asynq.RedisClientOpt{Addr: os.Getenv("BENCH_REDIS_ADDRESS")}
	numbers := make([]int, len(args)-1)
	for i, arg := range args[1:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	if args[0] == "fill" && len(args) == 3 {
		return fill(redis, numbers[0], numbers[1])
	}
	return work(redis, numbers[0])
}

func fill(redis asynq.RedisClientOpt, messages, payload int) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	body := []byte(strings.Repeat("x", payload))
	group := errgroup.Group{}
	for part := range fillers {
		group.Go(func() error {
			for i := part; i < messages; i += fillers {
				if _, err := client.Enqueue(asynq.NewTask("bench.noop", body)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func work(redis asynq.RedisClientOpt, slots int) error {
	server := asynq.NewServer(redis, asynq.Config{Concurrency: slots, LogLevel: asynq.ErrorLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc("bench.noop", func(context.Context, *asynq.Task) error { return nil })
	if err := server.Start(mux); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	server.Shutdown()
	return err
}
