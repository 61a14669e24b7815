package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/getsentry/sentry-go"
	"go.uber.org/zap"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/results"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

// stopPatience bounds the end of what is around the worker.
const stopPatience = 10 * time.Second

// stack is everything that runs, in the order it was started.
type stack struct {
	logger *zap.Logger
	worker *worker.Worker
	// failed gets the error of an embedded broker that ended by itself.
	failed <-chan error
	// stops undo the start, the last first.
	stops []func() error
	// connected is what the transport's hooks say.
	connected atomic.Bool
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
	s := &stack{logger: logger}
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
	observers, err := s.observers(logger)
	if err != nil {
		return nil, err
	}
	if err := s.startEmbedded(ctx, settings); err != nil {
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
	engine, err := worker.New(options, p.registry, connection, backend, append(observers, log)...)
	if err != nil {
		return nil, err
	}
	s.worker = engine
	if err := s.startHealth(ctx, settings.Health.Listen); err != nil {
		return nil, failed(err)
	}
	logger.Info(fmt.Sprintf("lovage %s: broker %s, results %s, concurrency %d, queues %s", Version,
		settings.Broker.Consume.Address, resultsText(settings), options.Concurrency, strings.Join(options.Queues, ", ")))
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
	ended := make(chan error, 1)
	go func() {
		<-embedded.Done()
		if err := embedded.Err(); err != nil {
			ended <- err
		}
	}()
	s.failed = ended
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
func (s *stack) startTransport(ctx context.Context, settings *config.Settings, log *observe.Log) (transport.Transport, error) {
	hooks := log.TransportHooks(settings.Broker.Consume.Address)
	lost, restored := hooks.Lost, hooks.Restored
	hooks.Lost = func(err error) { s.connected.Store(false); lost(err) }
	hooks.Restored = func() { s.connected.Store(true); restored() }
	connection, err := kubemq.New(consumeConfig(settings, hooks))
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, connection.Stop)
	if err := connection.Start(ctx); err != nil {
		return nil, failed(err)
	}
	s.connected.Store(true)
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

func (s *stack) startHealth(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	health, err := observe.StartHealth(ctx, address, func() bool { return s.worker.Consuming() && s.connected.Load() })
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		return health.Stop(ctx)
	})
	return nil
}

// sentryVariable is where every Sentry SDK looks for its DSN. It is not a
// setting, so it is in no configuration that is shown.
const sentryVariable = "SENTRY_DSN"

// observers are those that the environment asks for.
func (s *stack) observers(logger *zap.Logger) ([]worker.Observer, error) {
	dsn := os.Getenv(sentryVariable)
	if dsn == "" {
		return nil, nil
	}
	reporter, err := observe.NewSentry(sentry.ClientOptions{Dsn: dsn, Release: "lovage@" + Version})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() error {
		if !reporter.Close(stopPatience) {
			logger.Warn("Sentry did not take all reports in time")
		}
		return nil
	})
	return []worker.Observer{reporter}, nil
}
