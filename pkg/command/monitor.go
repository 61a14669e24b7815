package command

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

var errNotFetching = errors.New("command: the worker fetches no messages")

// monitor is what looks at the worker from outside: health checks, metrics and the
// watchdog. It has a connection of its own, made when it is first needed, so that a
// question can't stand behind the worker's traffic.
type monitor struct {
	settings   *config.Settings
	connection *observe.Connection
	client     *kubemq.Client
	metrics    *observe.Metrics
	watchdog   *observe.Watchdog
	rayServe   *observe.RayServe // nil without such queues
	// transport and engine are nil until they are made: questions come before them.
	transport atomic.Pointer[kubemq.Transport]
	engine    atomic.Pointer[worker.Worker]
	// channels are the broker's names of the queues that are looked at, by Celery's.
	channels map[string]string
	roles    map[string]string
}

// newMonitor is nil where nothing asks for it.
func newMonitor(settings *config.Settings, registry *tasks.Registry, connection *observe.Connection, stores []*rayServeStore) (*monitor, error) {
	if settings.Health.Listen == "" {
		return nil, nil
	}
	client, err := kubemq.NewClient(kubemqConfig(settings.Broker.Consume, transport.Hooks{}))
	if err != nil {
		return nil, err
	}
	m := &monitor{
		settings: settings, connection: connection, client: client,
		channels: map[string]string{}, roles: rolesOf(settings.Worker),
	}
	for queue := range m.roles {
		if m.channels[queue], err = kubemq.ChannelName(queue); err != nil {
			return nil, err
		}
	}
	depths := &observe.Depths{Roles: m.roles, Ask: m.depths}
	m.metrics = observe.NewMetrics(observe.MetricsConfig{
		Tasks: registry.Names(), Load: m.load, Connection: connection, Delayed: m.delayed, Depths: depths,
	})
	m.rayServe = rayServeMetrics(settings.Worker.RayServe, stores, depths, m.ready)
	m.watchdog = observe.NewWatchdog(observe.WatchdogConfig{
		Limit: settings.Health.Watchdog, Queues: settings.Worker.Queues, Load: m.load, Oldest: m.oldest,
	})
	return m, nil
}

// rolesOf says what the queues are for that the worker takes from or puts into.
func rolesOf(w config.Worker) map[string]string {
	roles := map[string]string{}
	if w.DeadLetterQueue != "" {
		roles[w.DeadLetterQueue] = observe.RoleDeadLetters
	}
	for _, queue := range w.CeleryQueues() {
		if aside := strings.ReplaceAll(w.UnprocessableQueue, "%s", queue); aside != "" {
			roles[aside] = observe.RoleUnprocessable
		}
	}
	addRayServeRoles(roles, w.RayServe)
	for _, queue := range w.Queues {
		roles[queue] = observe.RoleTasks
	}
	return roles
}

// start listens; others are metrics to tell besides the worker's own.
func (m *monitor) start(ctx context.Context, others ...prometheus.Collector) (*observe.Health, error) {
	health := observe.HealthConfig{Address: m.settings.Health.Listen, Ready: m.ready, Profiles: m.settings.Health.Profiles}
	if m.rayServe != nil {
		health.RayServe = m.rayServe
		others = append(others, m.rayServe)
	}
	health.Metrics = m.metrics.Handler(others...)
	return observe.StartHealth(ctx, health)
}

// observers are those of the worker.
func (m *monitor) observers() []worker.Observer {
	if m.rayServe == nil {
		return []worker.Observer{m.metrics}
	}
	return []worker.Observer{m.metrics, m.rayServe}
}

// watch begins when the worker is made.
func (m *monitor) watch(ctx context.Context, engine *worker.Worker) {
	if m.settings.Health.Watchdog > 0 {
		m.watchdog.Start(context.WithoutCancel(ctx))
	}
	m.engine.Store(engine) // last: a question may come at once
}

// stop ends the watchdog and the connection.
func (m *monitor) stop() error {
	m.watchdog.Stop()
	return m.client.Close()
}

// delayed is how many messages the worker has sent that are not due yet.
func (m *monitor) delayed() int {
	if connection := m.transport.Load(); connection != nil {
		return connection.Delayed()
	}
	return 0
}

func (m *monitor) load() (load worker.Load) {
	if engine := m.engine.Load(); engine != nil {
		load = engine.Load()
	}
	return load
}

// ready is nil while the worker consumes.
func (m *monitor) ready() error {
	if err := m.connection.Err(); err != nil {
		return err
	}
	if engine := m.engine.Load(); engine == nil || !engine.Consuming() {
		return errNotFetching
	}
	return m.watchdog.Err()
}

// depths are those of the queues that have a role.
func (m *monitor) depths(ctx context.Context) (map[string]int64, error) {
	return m.client.Depths(ctx, slices.Collect(maps.Keys(m.channels))...)
}

// oldest peeks at a queue that has messages. Depths count those in flight too, so
// they don't tell whether one is ready; a peek tells, and is only harmless where
// there is something (docs/protocol.md §16).
func (m *monitor) oldest(ctx context.Context, queue string) (string, error) {
	depths, err := m.depths(ctx)
	if err != nil || depths[queue] == 0 {
		return "", err
	}
	messages, err := m.client.Peek(ctx, m.channels[queue], 1, 0)
	if err != nil || len(messages) == 0 {
		return "", err
	}
	return messages[0].MessageID, nil
}
