package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/results"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

// stopPatience bounds the end of what is around the worker.
const stopPatience = 10 * time.Second

// stack is everything that runs, in the order it was started.
type stack struct {
	logger *zap.Logger
	worker *worker.Worker
	// failed gets the error of a part that ended by itself: the embedded broker, or a
	// connection that gave up.
	failed chan error
	// stops undo the start, the last first.
	stops []func() error
	// connection is the one to the broker.
	connection observe.Connection
	embedded   *broker.Broker // nil if it isn't
	// rayServe is where the results of Ray Serve queues go.
	rayServe []*rayServeStore
}

// stop ends everything, the last started first.
func (s *stack) stop() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	s.stops = nil
	return errors.Join(errs...)
}

// start brings up the broker if it is embedded, the connections and the worker.
func (p *program) start(ctx context.Context, settings *config.Settings, logger *zap.Logger) (_ *stack, err error) {
	s := &stack{logger: logger, failed: make(chan error, 2), rayServe: rayServeStores(settings.Worker.RayServe)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err := checkNames(settings.Worker); err != nil {
		return nil, err
	}
	options, err := workerOptions(settings)
	if err != nil {
		return nil, err
	}
	observers, err := p.startSentry(s, settings.Sentry)
	if err != nil {
		return nil, err
	}
	if err := s.startEmbedded(ctx, settings); err != nil {
		return nil, failed(err)
	}
	monitor, err := newMonitor(settings, p.registry, &s.connection, s.rayServe)
	if err != nil {
		return nil, err
	}
	if err := s.startMonitor(ctx, monitor); err != nil {
		return nil, failed(err)
	}
	log := observe.NewLog(logger)
	connection, err := s.startTransport(ctx, settings, log)
	if err != nil {
		return nil, err
	}
	backend, err := s.startBackend(ctx, settings, log)
	if err != nil {
		return nil, err
	}
	if options.RayServe, err = s.startRayServe(ctx, settings, log); err != nil {
		return nil, err
	}
	if err := p.bindOnce(backend); err != nil {
		return nil, err
	}
	if monitor != nil {
		monitor.transport.Store(connection)
		observers = append(observers, monitor.observers()...)
	}
	engine, err := worker.New(options, p.registry, connection, backend, append(observers, log)...)
	if err != nil {
		return nil, err
	}
	s.worker = engine
	if monitor != nil {
		monitor.watch(ctx, engine)
	}
	logger.Info(fmt.Sprintf("lovage %s: broker %s, results %s, concurrency %s, queues %s", Version,
		settings.Broker.Consume.Address, resultsText(settings), slotsText(settings.Worker), queueNames(settings.Worker)))
	if err := engine.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, failed(err)
	}
	s.stops = append(s.stops, func() error {
		expired, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel() // whoever comes here has waited for the running tasks already
		return engine.Stop(expired)
	})
	return s, nil
}

func resultsText(settings *config.Settings) string {
	if settings.Results.Backend == config.BackendDisabled {
		return "disabled"
	}
	return settings.Results.KubeMQ.Address
}

// startEmbedded starts the broker and tells the settings its real address.
func (s *stack) startEmbedded(ctx context.Context, settings *config.Settings) error {
	if !settings.Broker.Embedded {
		return nil
	}
	embedded, err := startBroker(ctx, settings)
	if err != nil {
		return err
	}
	warnOfSync(s.logger, settings)
	s.stops = append(s.stops, embedded.Stop)
	s.embedded = embedded
	go func() {
		<-embedded.Done()
		if err := embedded.Err(); err != nil {
			s.failed <- fmt.Errorf("the embedded broker has failed: %w", err)
		}
	}()
	address := reachable(embedded.Addr())
	settings.Broker.Consume.Address, settings.Broker.Publish.Address = address, address
	if settings.Results.Backend == config.BackendEmbedded {
		settings.Results.KubeMQ.Address = address
	}
	return nil
}

func startBroker(ctx context.Context, settings *config.Settings) (*broker.Broker, error) {
	brokerConfig, err := brokerConfig(settings.EmbeddedBroker)
	if err != nil {
		return nil, err
	}
	embedded, err := broker.New(brokerConfig)
	if err != nil {
		return nil, err
	}
	return embedded, embedded.Start(ctx)
}

// startTransport connects, however long that takes.
func (s *stack) startTransport(ctx context.Context, settings *config.Settings, log *observe.Log) (*kubemq.Transport, error) {
	hooks := s.connection.Hooks(log.TransportHooks(settings.Broker.Consume.Address))
	gaveUp := hooks.GaveUp
	hooks.GaveUp = func(err error) { gaveUp(err); s.failed <- err }
	connection, err := kubemq.New(consumeConfig(settings, hooks))
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, connection.Stop)
	if err := connection.Start(ctx); err != nil {
		return nil, failed(err)
	}
	s.connection.Started()
	return connection, nil
}

// startBackend is nil where results are disabled.
func (s *stack) startBackend(ctx context.Context, settings *config.Settings, log *observe.Log) (results.Backend, error) {
	if settings.Results.Backend == config.BackendDisabled {
		return nil, nil
	}
	backend, err := resultskubemq.New(resultskubemq.Config{
		Connection: kubemqConfig(settings.Results.KubeMQ, log.TransportHooks(settings.Results.KubeMQ.Address)),
	})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, backend.Stop)
	if err := backend.Start(ctx); err != nil {
		return nil, failed(err)
	}
	return backend, nil
}

// startMonitor listens for questions about the worker, if anybody may ask. It does so
// before there is a connection: a worker that waits for its broker lives, and a
// liveness probe must find that.
func (s *stack) startMonitor(ctx context.Context, monitor *monitor) error {
	if monitor == nil {
		return nil
	}
	s.stops = append(s.stops, monitor.stop)
	var others []prometheus.Collector
	if s.embedded != nil {
		others = append(others, s.embedded.Metrics())
	}
	health, err := monitor.start(ctx, others...)
	if err != nil {
		return failed(err)
	}
	s.stops = append(s.stops, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return health.Stop(ctx)
	})
	return nil
}
