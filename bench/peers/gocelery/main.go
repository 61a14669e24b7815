// Command gocelery is the peer of that name: "gocelery fill N BYTES" publishes tasks,
// "gocelery work SLOTS" runs them until the end of its standard input.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gocelery/gocelery"
	"github.com/gomodule/redigo/redis"
	"golang.org/x/sync/errgroup"
)

// fillers publish at the same time.
const fillers = 16

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench/peers/gocelery:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: gocelery fill N BYTES | gocelery work SLOTS")
	}
	numbers := make([]int, len(args)-1)
	for i, arg := range args[1:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	pool := &redis.Pool{
		MaxIdle: 1024,
		Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", os.Getenv("BENCH_REDIS_ADDRESS")) },
	}
	defer pool.Close()
	// It always stores results.
	client, err := gocelery.NewCeleryClient(gocelery.NewRedisBroker(pool), &gocelery.RedisCeleryBackend{Pool: pool}, numbers[0])
	if err != nil {
		return err
	}
	if args[0] == "fill" && len(args) == 3 {
		return fill(client, numbers[0], numbers[1])
	}
	client.Register("bench.noop", func(string) int { return 0 })
	client.StartWorker()
	_, err = io.Copy(io.Discard, os.Stdin)
	client.StopWorker()
	return err
}

func fill(client *gocelery.CeleryClient, messages, payload int) error {
	pad := strings.Repeat("x", payload)
	group := errgroup.Group{}
	for part := range fillers {
		group.Go(func() error {
			for i := part; i < messages; i += fillers {
				if _, err := client.Delay("bench.noop", pad); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
