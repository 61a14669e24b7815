package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/worker"
)

func newTestMetrics(depths *Depths) *Metrics {
	connection := &Connection{}
	hooks := connection.Hooks(transport.Hooks{})
	connection.Started()
	hooks.Lost(errors.New("x"))
	hooks.Restored()
	return NewMetrics(MetricsConfig{
		Tasks: []string{"proj.add"}, Connection: connection, Depths: depths,
		Load:    func() worker.Load { return worker.Load{Slots: 8, Busy: 3} },
		Delayed: func() int { return 12 },
	})
}

// TestMetricsCountEvents: each event in its metric, by task.
func TestMetricsCountEvents(t *testing.T) {
	r := request()
	for name, event := range map[string]worker.Event{
		"lovage_tasks_received_total":         worker.TaskReceived{Request: r},
		"lovage_tasks_postponed_total":        worker.TaskPostponed{Request: r},
		"lovage_tasks_started_total":          worker.TaskStarted{Request: r},
		"lovage_tasks_succeeded_total":        worker.TaskSucceeded{Request: r},
		"lovage_tasks_failed_total":           worker.TaskFailed{Request: r},
		"lovage_tasks_retried_total":          worker.TaskRetried{Request: r},
		"lovage_tasks_rejected_total":         worker.TaskRejected{Request: r},
		"lovage_tasks_ignored_total":          worker.TaskIgnored{Request: r},
		"lovage_tasks_revoked_total":          worker.TaskRevoked{Request: r},
		"lovage_tasks_cancelled_total":        worker.TaskCancelled{Request: r},
		"lovage_tasks_dead_lettered_total":    worker.DeadLettered{Request: r, Task: r.Task},
		"lovage_tasks_duplicate_total":        worker.TaskDuplicate{Request: r},
		"lovage_messages_unprocessable_total": worker.MessageUnprocessable{KeptIn: "aside", Fate: worker.Kept},
		"lovage_result_store_retries_total":   worker.StoreFailed{},
		"lovage_result_store_failures_total":  worker.StoreFailed{GivenUp: true},
		"lovage_publish_retries_total":        worker.PublishFailed{},
		"lovage_publish_failures_total":       worker.PublishFailed{GivenUp: true},
		"lovage_settlement_failures_total":    worker.SettleFailed{},
		"lovage_fetch_failures_total":         worker.FetchFailed{},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestMetrics(nil)
			m.Observe(event)
			found, changed := gathered(t, m)[name]
			require.True(t, changed, "%s is there", name)
			require.InDelta(t, 1, found, 0)
			for other, value := range gathered(t, m) {
				if strings.HasSuffix(other, "_total") && other != name && other != "lovage_connection_reconnects_total" {
					require.Zero(t, value, other)
				}
			}
		})
	}
}

// TestOnlyHandlersThatRanAreMeasured: a duplicate that is known, or a message whose
// attempts are used up, took no time.
func TestOnlyHandlersThatRanAreMeasured(t *testing.T) {
	m := newTestMetrics(nil)
	m.Observe(worker.TaskSucceeded{Request: request()})
	m.Observe(worker.TaskFailed{Request: request()})
	require.Zero(t, gathered(t, m)["lovage_task_runtime_seconds"])
	m.Observe(worker.TaskSucceeded{Request: request(), Runtime: time.Nanosecond})
	m.Observe(worker.TaskFailed{Request: request(), Runtime: time.Nanosecond})
	require.InDelta(t, 2, gathered(t, m)["lovage_task_runtime_seconds"], 0)
}

// gathered are the sums of a metric's series.
func gathered(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	sums := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			sums[family.GetName()] += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sums
}

// TestNamesFromOutsideMakeNoSeries: anybody who can send a message could make them up.
func TestNamesFromOutsideMakeNoSeries(t *testing.T) {
	m := newTestMetrics(nil)
	before := testutil.CollectAndCount(m, "lovage_tasks_unknown_total")
	for i := range 100 {
		m.Observe(worker.TaskUnknown{Task: strings.Repeat("x", i)})
	}
	require.Equal(t, before, testutil.CollectAndCount(m, "lovage_tasks_unknown_total"))
	require.InDelta(t, 100, testutil.ToFloat64(m.byTask[countUnknown].WithLabelValues(otherTasks)), 0)
}

// TestWaitTime: from when the message was ready, not before its ETA, never negative.
func TestWaitTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMetrics(nil)
		now := time.Now()
		for _, event := range []worker.TaskReceived{
			{Request: request()}, // not known: not measured
			{Request: request(), Queued: now.Add(-2 * time.Second)},
			{Request: &tasks.Request{Task: "proj.add", ETA: now.Add(-time.Second)}, Queued: now.Add(-time.Hour)},
			{Request: request(), Queued: now.Add(time.Minute)},
		} {
			m.Observe(event)
		}
		m.Observe(worker.TaskSucceeded{Request: request(), Runtime: 2 * time.Second})
		require.NoError(t, testutil.CollectAndCompare(m.wait, strings.NewReader(`
# HELP lovage_task_wait_seconds From when a message was ready, or its ETA if that is later, to when it was received.
# TYPE lovage_task_wait_seconds histogram
lovage_task_wait_seconds_bucket{task="proj.add",le="0.005"} 1
lovage_task_wait_seconds_bucket{task="proj.add",le="0.01"} 1
lovage_task_wait_seconds_bucket{task="proj.add",le="0.05"} 1
lovage_task_wait_seconds_bucket{task="proj.add",le="0.1"} 1
lovage_task_wait_seconds_bucket{task="proj.add",le="0.5"} 1
lovage_task_wait_seconds_bucket{task="proj.add",le="1"} 2
lovage_task_wait_seconds_bucket{task="proj.add",le="5"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="10"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="30"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="60"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="300"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="900"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="3600"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="21600"} 3
lovage_task_wait_seconds_bucket{task="proj.add",le="+Inf"} 3
lovage_task_wait_seconds_sum{task="proj.add"} 3
lovage_task_wait_seconds_count{task="proj.add"} 3
`)))
	})
}

// TestDepthsAreAskedRarely, and are missing while the broker doesn't tell.
func TestDepthsAreAskedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, failure := 0, error(nil)
		depths := &Depths{
			Roles: map[string]string{"celery": RoleTasks, "dead": RoleDeadLetters},
			Ask: func(ctx context.Context) (map[string]int64, error) {
				asked++
				deadline, bounded := ctx.Deadline()
				require.True(t, bounded && time.Until(deadline) <= depthsPatience)
				return map[string]int64{"celery": 7}, failure
			},
		}
		m := newTestMetrics(depths)
		want := `
# HELP lovage_queue_depth Messages of a queue that are ready or in flight, by what the queue is for: tasks, dead_letters or unprocessable. Missing while the broker doesn't tell.
# TYPE lovage_queue_depth gauge
lovage_queue_depth{queue="celery",role="tasks"} 7
lovage_queue_depth{queue="dead",role="dead_letters"} 0
`
		for range 10 {
			require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(want), "lovage_queue_depth"))
		}
		require.Equal(t, 1, asked)
		failure = errors.New("away")
		<-time.After(depthsAge)
		require.Zero(t, testutil.CollectAndCount(m, "lovage_queue_depth"))
		require.Equal(t, 2, asked)
	})
}

// TestScrape: a real parser reads the text, and Prometheus's own rules for names
// and kinds find nothing.
func TestScrape(t *testing.T) {
	m := newTestMetrics(&Depths{
		Roles: map[string]string{"celery": RoleTasks},
		Ask:   func(context.Context) (map[string]int64, error) { return nil, nil },
	})
	m.Observe(worker.TaskReceived{Request: request(), Queued: time.Now()})
	m.Observe(worker.TaskSucceeded{Request: request(), Runtime: time.Second})
	health, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0", Metrics: m.Handler()})
	require.NoError(t, err)
	ask := asker(t, health)
	code, text := ask("/metrics")
	require.Equal(t, 200, code)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	for _, line := range []string{
		`lovage_tasks_received_total{task="proj.add"} 1`, `lovage_tasks_dead_lettered_total{task="(other)"} 0`,
		`lovage_task_runtime_seconds_count{task="proj.add"} 1`, "lovage_slots 8", "lovage_slots_busy 3", "lovage_delayed_messages 12",
		"lovage_connection_up 1", "lovage_connection_reconnects_total 1", "go_goroutines ", "process_open_fds ",
	} {
		require.Contains(t, text, "\n"+line)
	}
	require.NoError(t, health.Stop(t.Context()))
}
