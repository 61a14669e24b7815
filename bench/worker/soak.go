package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/bench/meter"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	soakRate  = 1000 // tasks a second, of which one in a hundred panics
	soakSlots = 64
	// soakSamples is how often in a soak the worker is looked at.
	soakSamples = 60
	// soakFlight is how many messages may be on their way to the broker: more than come
	// in while it restarts.
	soakFlight = 20_000
	// soakDrain is how long the worker has for what is left at the end.
	soakDrain = 2 * time.Minute
	// The worker is flat if the medians of the last third of the samples are at most so
	// much above those of the second third: the first is for warming up.
	moreGoroutines = 10
	moreHeap       = 6 << 20
)

// soak is a run of it.
type soak struct {
	bench     *bench
	listen    string
	data      string
	node      *node
	worker    *process
	published atomic.Int64
	samples   []soakSample
	restarts  int
}

// soakSample is the worker at a time, after a garbage collection.
type soakSample struct {
	at         time.Duration
	goroutines int
	heap       uint64
	memory     int64
	started    int64
}

// runSoak publishes at a steady rate to a worker whose broker is restarted again and
// again, and fails if a task is lost, or if goroutines or heap grow.
func (b *bench) runSoak(ctx context.Context) (err error) {
	s := &soak{bench: b, data: filepath.Join(b.dir, "soak")}
	if err := os.Mkdir(s.data, 0o750); err != nil {
		return err
	}
	if s.listen, err = freeAddress(ctx); err != nil {
		return err
	}
	if s.node, err = startNode(ctx, s.data, s.listen); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.stop()) }()
	s.worker, err = startProcess(ctx, nil, b.programs.lovage, "-c", strconv.Itoa(soakSlots), "-Q", queueName, "-l", "critical", "--",
		"broker_url=kubemq://"+s.listen, "result_backend=kubemq://"+s.listen, "task_acks_late=true", "result_expires=60")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.worker.stop()) }()
	if err := s.run(ctx); err != nil {
		return err
	}
	return s.conclude()
}

// run publishes, restarts and looks, then waits for what is left.
func (s *soak) run(ctx context.Context) error {
	publisher, err := kubemq.New(kubemq.Config{Address: s.listen, Strategy: kubemq.StrategySingle})
	if err != nil {
		return err
	}
	if err := publisher.Start(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(running)
	group.Go(func() error {
		defer stop()
		return s.publish(ctx, publisher)
	})
	group.Go(func() error { return s.watch(working) })
	if err := errors.Join(group.Wait(), publisher.Stop()); err != nil {
		return err
	}
	drained, cancel := context.WithTimeout(ctx, soakDrain)
	defer cancel()
	k := &contender{worker: s.worker, depth: s.node.depth}
	if err := k.await(drained, func(depth int64) bool { return depth == 0 }); err != nil {
		return err
	}
	return s.sample(s.bench.options.soak)
}

// publish sends on schedule, each message until the broker has confirmed it.
func (s *soak) publish(ctx context.Context, publisher *kubemq.Transport) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(soakFlight)
	plan := schedule{begin: time.Now(), rate: soakRate, count: int(s.bench.options.soak.Seconds() * soakRate)}
	err := plan.each(sending, func(first, end int) error {
		for i := first; i < end; i++ {
			group.Go(func() error { return s.publishOne(sending, publisher, i) })
		}
		return nil
	})
	return errors.Join(group.Wait(), err)
}

func (s *soak) publishOne(ctx context.Context, publisher *kubemq.Transport, number int) error {
	w, err := task{name: "bench.unlucky", args: []any{int64(number)}}.encode(uuid.NewString(), queueName)
	if err != nil {
		return err
	}
	message := transport.Outgoing{Body: w.envelope, Headers: w.headers}
	for err = transport.ErrUnconfirmed; errors.Is(err, transport.ErrUnconfirmed); {
		err = publisher.Publish(ctx, queueName, message)
	}
	if err == nil {
		s.published.Add(1)
	}
	return err
}

// watch takes samples and restarts the broker until ctx ends.
func (s *soak) watch(ctx context.Context) error {
	begin := time.Now()
	samples := time.NewTicker(s.bench.options.soak / soakSamples)
	defer samples.Stop()
	restarts := time.NewTicker(s.bench.options.restart)
	defer restarts.Stop()
	for {
		select {
		case <-samples.C:
			if err := s.sample(time.Since(begin)); err != nil {
				return err
			}
		case <-restarts.C:
			if err := s.restart(ctx); err != nil {
				return ended(ctx, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *soak) restart(ctx context.Context) error {
	if err := s.node.process.stop(); err != nil {
		return err
	}
	s.restarts++
	s.bench.progress("restart %d of the broker", s.restarts)
	// Not ctx: the broker is needed until the end.
	again, err := startNode(context.WithoutCancel(ctx), s.data, s.listen)
	if err != nil {
		return err
	}
	err = s.node.conn.Close()
	s.node = again
	return err
}

func (s *soak) sample(at time.Duration) error {
	var state meter.State
	if err := s.worker.ask(meter.Collect, &state); err != nil {
		return err
	}
	used, err := s.worker.cost()
	if err != nil {
		return err
	}
	one := soakSample{at: at, goroutines: state.Goroutines, heap: state.Heap, memory: used.memory, started: state.Started}
	s.samples = append(s.samples, one)
	s.bench.progress("%v: %d published, %d begun, %d goroutines, heap %s, memory %s", at.Round(time.Second), s.published.Load(),
		one.started, one.goroutines, mebibytes(float64(one.heap)), mebibytes(float64(one.memory)))
	return nil
}

// conclude prints what came out, and fails where something was lost or has grown.
func (s *soak) conclude() error {
	published, last := s.published.Load(), s.samples[len(s.samples)-1]
	goroutines := growth(s.samples, func(one soakSample) float64 { return float64(one.goroutines) })
	heap := growth(s.samples, func(one soakSample) float64 { return float64(one.heap) })
	out := &strings.Builder{}
	fmt.Fprintf(out, "%v at %s tasks a second, one in a hundred panics, %d restarts of the broker: %d published, %d begun (restarts bring\n",
		s.bench.options.soak, count(soakRate), s.restarts, published, last.started)
	fmt.Fprintf(out, "duplicates), none left. From the second third to the last: %+.0f goroutines, heap %+.1f MiB. Memory at the end: %s.\n",
		goroutines, heap/(1<<20), mebibytes(float64(last.memory)))
	if _, err := fmt.Print(out.String()); err != nil {
		return err
	}
	var errs []error
	if last.started < published {
		errs = append(errs, fmt.Errorf("%d tasks were published and only %d begun", published, last.started))
	}
	if goroutines > moreGoroutines {
		errs = append(errs, fmt.Errorf("%.0f goroutines more, %d are allowed", goroutines, moreGoroutines))
	}
	if heap > moreHeap {
		errs = append(errs, fmt.Errorf("%.0f bytes of heap more, %d are allowed", heap, moreHeap))
	}
	return errors.Join(append(errs, replaceBlock(s.bench.options.document, "soak", out.String()))...)
}

// growth is how much larger the median of the last third of the samples is than that of
// the one before.
func growth(samples []soakSample, of func(soakSample) float64) float64 {
	var before, after []float64
	for i, one := range samples {
		switch {
		case i >= 2*len(samples)/3:
			after = append(after, of(one))
		case i >= len(samples)/3:
			before = append(before, of(one))
		}
	}
	return median(after) - median(before)
}
