// Command worker measures Lovage's worker beside a bare loop on the same broker, beside
// Celery and beside other Go workers, all in one run, alternating. It prints a
// table and writes it as JSON, as a chart and into docs/performance.md. It needs
// Linux (/proc), a redis-server and the programs that bench/run.sh builds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	programs programs
	dir      string
	rounds   int
	window   time.Duration
	quick    bool
	only     string
	memory   bool
	messages int
	soak     time.Duration
	restart  time.Duration

	document, json, chart, profile string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/worker:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) > 1 && args[0] == "-child" {
		return runChild(ctx, args[1], args[2:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, o)
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench/worker", flag.ContinueOnError)
	flags.StringVar(&o.programs.lovage, "lovage", "", "path of bench/lovage")
	flags.StringVar(&o.programs.asynq, "asynq", "", "path of bench/peers/asynq")
	flags.StringVar(&o.programs.gocelery, "gocelery", "", "path of bench/peers/gocelery")
	flags.StringVar(&o.programs.celery, "celery", "", "path of Celery's command")
	flags.StringVar(&o.programs.python, "python", "bench/celery:interop", "directories of the Python peers")
	flags.StringVar(&o.programs.redis, "redis", "redis-server", "the Redis server")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory for durable stores; its disk is what is measured")
	flags.IntVar(&o.rounds, "rounds", 4, "how often each cell is measured")
	flags.DurationVar(&o.window, "window", 2*time.Second, "longest time of a rate")
	flags.BoolVar(&o.quick, "quick", false, "one short round, to see that it works")
	flags.StringVar(&o.only, "only", "", "regular expression: the keys of the cells to measure")
	flags.BoolVar(&o.memory, "memory", false, "measure memory with -messages queued, and with as many waiting for their ETA, instead")
	flags.IntVar(&o.messages, "messages", 1_000_000, "messages of -memory")
	flags.DurationVar(&o.soak, "soak", 0, "run 1,000 tasks a second for so long, instead")
	flags.DurationVar(&o.restart, "restart", 5*time.Minute, "how often -soak restarts the broker")
	flags.StringVar(&o.profile, "profile", "", "directory for profiles of the measured windows: <key>.cpu, .allocs, .mutex and .block")
	flags.StringVar(&o.document, "document", "", "Markdown file whose block between markers is replaced")
	flags.StringVar(&o.json, "json", "", "file for the figures")
	flags.StringVar(&o.chart, "chart", "", "file for the chart (SVG)")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if o.quick {
		o.rounds, o.window = 1, o.window/4
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	found, err := o.programs.find()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "bench-worker-")
	if err != nil {
		return err
	}
	b := &bench{options: o, programs: found, dir: dir}
	return errors.Join(b.run(ctx), os.RemoveAll(dir))
}
