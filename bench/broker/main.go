// Command broker measures the embedded broker over loopback, client and broker in
// a process of their own, and prints a Markdown table. Beside each figure stand
// those of the 2023 server and what the machine allows, measured in the same run:
// the same requests against a server that does nothing, and the disk's fsync
// rate. docs/broker-speed.md says how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// options are the flags, of the parent and of the child it starts.
type options struct {
	dir     string
	cell    time.Duration
	memory  bool
	profile string

	serve string
	data  string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", os.TempDir(), "directory for the data directories; its disk is what is measured")
	flag.DurationVar(&o.cell, "time", 2*time.Second, "longest time for one figure")
	flag.BoolVar(&o.memory, "memory", false, "also store 1,000,000 messages of 1 KiB and report the memory they take")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the broker")
	flag.StringVar(&o.serve, "serve", "", "internal: what the child serves")
	flag.StringVar(&o.data, "data", "", "internal: the child's data directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/broker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.serve != "" {
		return serve(ctx, o, os.Stdin, os.Stdout)
	}
	dir, err := os.MkdirTemp(o.dir, "bench-broker-")
	if err != nil {
		return err
	}
	return errors.Join(compare(ctx, o, dir, os.Stdout), os.RemoveAll(dir))
}

// subject is a server to measure.
type subject struct {
	name    string
	serve   string
	data    string
	durable bool
}

// compare measures everything in one run.
func compare(ctx context.Context, o options, dir string, out io.Writer) error {
	before, err := syncRate(dir, o.cell)
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	var reports []report
	for _, s := range []subject{
		{name: "does nothing", serve: serveNothing},
		{name: "in memory", serve: serveBroker},
		{name: "durable", serve: serveBroker, data: filepath.Join(dir, "durable"), durable: true},
	} {
		r, err := measure(ctx, o, s)
		if err != nil {
			return fmt.Errorf("measure the server %q: %w", s.name, err)
		}
		reports = append(reports, r)
	}
	after, err := syncRate(dir, o.cell)
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	if _, err := io.WriteString(out, render([2]float64{before, after}, reports)); err != nil || !o.memory {
		return err
	}
	rss, err := measureMemory(ctx, o, filepath.Join(dir, "memory"))
	if err != nil {
		return fmt.Errorf("measure memory: %w", err)
	}
	_, err = fmt.Fprintf(out, "\n1,000,000 waiting messages of 1 KiB, durable: the broker's process has %d MiB resident.\n", rss>>20)
	return err
}
