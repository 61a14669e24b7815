package gocelery_test

import (
	"errors"
	"testing"
	"time"

	upstream "github.com/gocelery/gocelery"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/tasks"
	lovage "github.com/lovage-project/lovage/pkg/tasks/gocelery"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

// product is a task in gocelery's other form.
type product struct{ a, b int }

func (m *product) ParseKwargs(kwargs map[string]interface{}) error {
	a, okA := kwargs["a"].(float64)
	b, okB := kwargs["b"].(float64)
	if !okA || !okB {
		return errors.New("a and b must be numbers")
	}
	m.a, m.b = int(a), int(b)
	return nil
}

func (m *product) RunTask() (interface{}, error) { return m.a * m.b, nil }

// TestMigration is the way of a gocelery program: its tasks run in this worker,
// and its client publishes protocol 1 messages that nobody here wrote.
func TestMigration(t *testing.T) {
	embedded, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, embedded.Start(t.Context()))
	defer func() { require.NoError(t, embedded.Stop()) }()
	server := kubemq.Config{Address: embedded.Addr().String()}
	connection, err := kubemq.New(server)
	require.NoError(t, err)
	require.NoError(t, connection.Start(t.Context()))
	defer func() { require.NoError(t, connection.Stop()) }()
	backend, err := resultskubemq.New(resultskubemq.Config{Connection: server})
	require.NoError(t, err)
	require.NoError(t, backend.Start(t.Context()))
	defer func() { require.NoError(t, backend.Stop()) }()

	registry := tasks.NewRegistry()
	lovage.Register(registry, "add", func(a, b int) int { return a + b })
	lovage.Register(registry, "multiply", &product{})
	options := worker.DefaultOptions()
	options.Hostname, options.Concurrency = "celery@test", 4
	w, err := worker.New(options, registry, connection, backend)
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	defer func() { require.NoError(t, w.Stop(t.Context())) }()

	client, err := upstream.NewCeleryClient(&lovage.Broker{Publisher: connection}, &lovage.Backend{Results: backend}, 1)
	require.NoError(t, err)
	sum, err := client.Delay("add", 2, 3)
	require.NoError(t, err)
	timesResult, err := client.DelayKwargs("multiply", map[string]interface{}{"a": 6, "b": 7})
	require.NoError(t, err)
	for result, want := range map[*upstream.AsyncResult]float64{sum: 5, timesResult: 42} {
		value, err := result.Get(20 * time.Second)
		require.NoError(t, err)
		require.InDelta(t, want, value, 0)
	}
}
