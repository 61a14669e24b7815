package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/worker"
)

// serve runs the worker until a signal ends it.
func (p *program) serve(ctx context.Context, pairs []string) error {
	var warnings []config.Warning
	settings, err := p.load(pairs, func(w config.Warning) { warnings = append(warnings, w) })
	if err != nil {
		return err
	}
	logger, err := observe.NewLogger(p.errOut, settings.Log.Format, settings.Log.Level)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		logger.Warn(warning.String())
	}
	// Caught from here on, so that a signal during the start ends it cleanly.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	defer p.dumpOnUSR1()()
	defer runtime.KeepAlive(heapFloor())

	starting, started := context.WithCancelCause(ctx)
	stack, err := p.startWithSignals(starting, started, settings, logger, signals)
	if err != nil {
		return err
	}
	code := p.wait(ctx, stack, signals)
	if err := stack.stop(); err != nil {
		return failed(err)
	}
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// startWithSignals starts everything; a signal meanwhile gives up.
func (p *program) startWithSignals(
	ctx context.Context, cancel context.CancelCauseFunc, settings *config.Settings, logger *zap.Logger, signals chan os.Signal,
) (*stack, error) {
	type result struct {
		stack *stack
		err   error
	}
	done := make(chan result, 1)
	go func() {
		s, err := p.start(ctx, settings, logger)
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		return r.stack, r.err
	case received := <-signals:
		cancel(fmt.Errorf("%w: %v during the start", worker.ErrShutdown, received))
		if r := <-done; r.stack != nil {
			return nil, errors.Join(&exitError{code: signalCode(received)}, r.stack.stop())
		}
		return nil, &exitError{code: signalCode(received)}
	}
}

// wait returns the exit code when the worker is stopped: by a first signal
// warmly, by a second coldly, by a third not at all.
func (p *program) wait(ctx context.Context, s *stack, signals <-chan os.Signal) int {
	code := exitOK
	var stopped chan struct{}
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	stop := func() {
		if stopped != nil {
			return
		}
		stopped = make(chan struct{})
		go func() {
			defer close(stopped)
			if err := s.worker.Stop(patience); err != nil {
				p.complain(err.Error())
			}
		}()
	}
	received := 0
	ended := ctx.Done()
	for {
		select {
		case sig := <-signals:
			received++
			if received > 2 {
				p.complain("a third signal: running tasks are left behind")
				return exitFailure
			}
			code = max(code, signalCode(sig))
			stop()
			if received == 2 || isCold(sig) {
				code = exitFailure
				giveUp() // Stop cancels what runs, and waits for it no longer than its grace
			}
		case err := <-s.failed:
			s.logger.Error("worker: stopping: " + err.Error())
			code = exitFailure
			stop()
		case <-ended:
			ended = nil
			stop()
		case <-stopped:
			return code
		}
	}
}

// signalCode is Celery's exit code: 0 after SIGTERM, 1 after an interrupt. SIGHUP,
// with which Celery restarts itself, is for a supervisor here.
func signalCode(sig os.Signal) int {
	if sig == syscall.SIGHUP || sig == syscall.SIGTERM && !remapped() {
		return exitOK
	}
	return exitFailure
}

// dumpOnUSR1 writes the stacks of all goroutines when SIGUSR1 comes, as Celery
// does with its threads, until stop is called. SIGUSR2, Celery's debugger, does
// nothing: by default it would kill the process.
func (p *program) dumpOnUSR1() (stop func()) {
	dumps := make(chan os.Signal, 1)
	signal.Notify(dumps, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGUSR2)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range dumps {
			stacks := make([]byte, maxDump)
			p.complain("stacks:\n" + string(stacks[:runtime.Stack(stacks, true)]))
		}
	}()
	return func() {
		signal.Stop(dumps)
		signal.Reset(syscall.SIGUSR2)
		close(dumps)
		<-ended
	}
}

// maxDump bounds what SIGUSR1 writes.
const maxDump = 4 << 20

// isCold: SIGQUIT cancels at once, and so does SIGTERM with Celery's
// REMAP_SIGTERM=SIGQUIT.
func isCold(sig os.Signal) bool {
	return sig == syscall.SIGQUIT || sig == syscall.SIGTERM && remapped()
}

func remapped() bool {
	name := strings.ToUpper(os.Getenv("REMAP_SIGTERM"))
	return name == "SIGQUIT" || name == "QUIT"
}
