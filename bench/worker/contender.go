package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// programs are what the benchmark runs.
type programs struct {
	lovage, asynq, gocelery string
	celery                  string // Celery's command in its virtual environment
	python                  string // the directories of peer.py and lovage_kombu, parted by colons
	redis                   string // the server
}

// contender is a worker that works on a backlog, with all that belongs to it.
type contender struct {
	worker *process
	// metered says that worker answers with the figures of a meter.
	metered bool
	// profile is where the profiles of the window go, without their endings; "" for none.
	profile string
	// depth is how many messages are in the queue or in flight.
	depth func(context.Context) (int64, error)
	stops []func() error
}

func (c *contender) stop() error {
	var errs []error
	for i := len(c.stops) - 1; i >= 0; i-- {
		errs = append(errs, c.stops[i]())
	}
	return errors.Join(errs...)
}

// contend fills the queue of a cell and starts its worker.
func (b *bench) contend(ctx context.Context, c cell) (_ *contender, err error) {
	k := &contender{}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.stop())
		}
	}()
	switch c.system {
	case systemCeiling, systemLovage:
		return k, b.contendEmbedded(ctx, c, k)
	case systemCelery:
		return k, b.contendCelery(ctx, c, k)
	default:
		return k, b.contendGo(ctx, c, k)
	}
}

// contendEmbedded: the messages are in an embedded broker.
func (b *bench) contendEmbedded(ctx context.Context, c cell, k *contender) error {
	data := ""
	if c.broker != brokerMemory {
		var err error
		if data, err = os.MkdirTemp(b.dir, "data-"); err != nil {
			return err
		}
		k.stops = append(k.stops, func() error { return os.RemoveAll(data) })
	}
	n, err := startNode(ctx, data, "")
	if err != nil {
		return err
	}
	err = errors.Join(n.fill(ctx, c.task, queueName, c.messages),
		n.fill(ctx, task{name: "bench.wait", args: []any{int64(1000)}}, slowQueue, c.slow))
	if err != nil {
		return errors.Join(err, n.stop())
	}
	if c.broker == brokerInside {
		return b.contendInside(ctx, c, k, n, data)
	}
	k.stops = append(k.stops, n.stop)
	if c.system == systemLovage {
		return b.work(ctx, c, k, n, "broker_url=kubemq://"+n.address)
	}
	k.depth = n.depth
	arguments := []string{"-address", n.address, "-slots", strconv.Itoa(c.slots), "-results=" + strconv.FormatBool(c.results)}
	if k.worker, err = startSelf(ctx, roleLoop, arguments...); err != nil {
		return err
	}
	k.metered = true
	k.stops = append(k.stops, k.worker.stop)
	return k.worker.read(&readiness{})
}

// contendInside: the worker has the broker in its own process, which opens the store
// that n has filled.
func (b *bench) contendInside(ctx context.Context, c cell, k *contender, n *node, data string) error {
	if err := n.stop(); err != nil {
		return err
	}
	inside, err := connect(n.address)
	if err != nil {
		return err
	}
	k.stops = append(k.stops, inside.stop)
	return b.work(ctx, c, k, inside, "broker_url=embedded://", "embedded_broker.listen="+n.address, "embedded_broker.data_dir="+data)
}

// work starts Lovage.
func (b *bench) work(ctx context.Context, c cell, k *contender, n *node, settings ...string) error {
	k.depth, k.metered = n.depth, true
	queues := queueName
	if c.beside {
		queues += "," + slowQueue
	}
	level := c.loglevel
	if level == "" {
		level = "error"
	}
	if c.strategy != "" {
		settings = append(settings, "kubemq.strategy="+c.strategy)
	}
	if c.results {
		settings = append(settings, "result_backend=kubemq://"+n.address)
	}
	settings = append(settings, "task_acks_late="+strconv.FormatBool(c.late))
	var variables []string
	if c.cores > 0 {
		variables = append(variables, fmt.Sprintf("GOMAXPROCS=%d", c.cores))
	}
	arguments := append([]string{"-c", strconv.Itoa(c.slots), "-Q", queues, "-l", level, "--"}, settings...)
	var err error
	if k.worker, err = startProcess(ctx, variables, b.programs.lovage, arguments...); err != nil {
		return err
	}
	k.stops = append(k.stops, k.worker.stop)
	return nil
}

// contendCelery: the queue on Redis holds the same messages, byte by byte.
func (b *bench) contendCelery(ctx context.Context, c cell, k *contender) error {
	if err := errors.Join(b.redis.flush(), b.redis.fill(c.task, queueName, c.messages)); err != nil {
		return err
	}
	k.depth = b.redisDepth([]string{"LLEN", queueName}, []string{"HLEN", "unacked"})
	variables := []string{
		"BENCH_REDIS_URL=redis://" + b.redis.address + "/0", "BENCH_PREFETCH=" + strconv.Itoa(c.prefetch),
		"PYTHONPATH=" + b.programs.python, "PYTHONDONTWRITEBYTECODE=1", "C_FORCE_ROOT=1",
	}
	if c.results {
		variables = append(variables, "BENCH_RESULTS=1")
	}
	var err error
	k.worker, err = startForeign(ctx, variables, b.programs.celery, "-A", "peer", "worker", "--pool", c.pool,
		"--concurrency", strconv.Itoa(c.slots), "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
	if err != nil {
		return err
	}
	k.stops = append(k.stops, k.worker.end)
	return nil
}

// contendGo: the peer publishes with its own client.
func (b *bench) contendGo(ctx context.Context, c cell, k *contender) error {
	if err := b.redis.flush(); err != nil {
		return err
	}
	path := b.programs.asynq
	k.depth = b.redisDepth([]string{"LLEN", "asynq:{default}:pending"}, []string{"LLEN", "asynq:{default}:active"})
	if c.system == systemGocelery {
		path, k.depth = b.programs.gocelery, b.redisDepth([]string{"LLEN", "celery"})
	}
	variables := []string{"BENCH_REDIS_ADDRESS=" + b.redis.address}
	filler, err := startProcess(ctx, variables, path, "fill", strconv.Itoa(c.messages), strconv.Itoa(c.payload))
	if err != nil {
		return err
	}
	if err := filler.command.Wait(); err != nil {
		return filler.failed("fill with", err)
	}
	if k.worker, err = startProcess(ctx, variables, path, "work", strconv.Itoa(c.slots)); err != nil {
		return err
	}
	k.stops = append(k.stops, k.worker.end)
	return nil
}

func (b *bench) redisDepth(commands ...[]string) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return b.redis.do(commands...) }
}

// find makes the paths of the programs absolute and sees that they are there.
func (p programs) find() (programs, error) {
	directories := strings.Split(p.python, ":")
	paths := make([]*string, 0, len(directories)+4)
	paths = append(paths, &p.lovage, &p.asynq, &p.gocelery, &p.celery)
	for i := range directories {
		paths = append(paths, &directories[i])
	}
	for _, path := range paths {
		absolute, err := filepath.Abs(*path)
		if err == nil {
			_, err = os.Stat(absolute)
		}
		if err != nil {
			return programs{}, fmt.Errorf("find the programs to measure: %w", err)
		}
		*path = absolute
	}
	p.python = strings.Join(directories, ":")
	return p, nil
}

// interpreter is Python beside Celery's command.
func (p programs) interpreter() string { return filepath.Join(filepath.Dir(p.celery), "python") }
