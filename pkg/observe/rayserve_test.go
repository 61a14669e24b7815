package observe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// newTestRayServe serves two queues that share a failed-task queue and have a store
// each. The error that it returns the address of is Ask's.
func newTestRayServe() (r *RayServe, unasked, unready *error) {
	unasked, unready = new(error), new(error)
	counts := func(n int64) func() StoreCounts {
		return func() StoreCounts { return StoreCounts{Retries: n, Kept: 10 * n, Dropped: 100 * n} }
	}
	return NewRayServe(RayServeConfig{
		Queues: []RayServeQueue{{Name: "text", FailedTaskQueue: "failed"}, {Name: "images", FailedTaskQueue: "failed"}, {Name: "plain"}},
		Stores: []RayServeStore{
			{Queues: []string{"text", "plain"}, Counts: counts(2)}, {Queues: []string{"images"}, Counts: counts(1)},
		},
		Depths: &Depths{Ask: func(context.Context) (map[string]int64, error) {
			return map[string]int64{"text": 3, "images": 4, "failed": 5, "celery": 99}, *unasked
		}},
		Ready: func() error { return *unready },
	}), unasked, unready
}

// runTask tells r of a run that ends in so long with the event that end makes.
func runTask(r *RayServe, queue string, took time.Duration, end func(*tasks.Request) worker.Event) {
	request := &tasks.Request{ID: "id", Task: "t", Queue: queue}
	r.Observe(worker.TaskReceived{Request: request})
	r.Observe(worker.TaskStarted{Request: request})
	<-time.After(took)
	if event := end(request); event != nil {
		r.Observe(event)
	}
	r.Observe(worker.TaskEnded{Request: request})
}

// TestRayServeDocument: the adapter's names, the queues each and together.
func TestRayServeDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := newTestRayServe()
		runTask(r, "text", time.Second, func(q *tasks.Request) worker.Event {
			return worker.TaskSucceeded{Request: q, Runtime: time.Second}
		})
		runTask(r, "text", 2*time.Second, func(q *tasks.Request) worker.Event {
			return worker.TaskFailed{Request: q, Runtime: 2 * time.Second}
		})
		runTask(r, "images", 6*time.Second, func(q *tasks.Request) worker.Event { return worker.TaskRejected{Request: q, Requeue: true} })
		runTask(r, "celery", time.Hour, func(q *tasks.Request) worker.Event { return worker.TaskSucceeded{Request: q, Runtime: time.Hour} })
		r.Observe(worker.TaskStarted{Request: &tasks.Request{ID: "running", Queue: "images"}})
		r.Observe(worker.TaskUnknown{Queue: "images"})
		r.Observe(worker.TaskUnknown{Queue: "images", Fate: worker.HandedBack})
		r.Observe(worker.Polled{Queue: "images", Took: 250 * time.Millisecond})
		<-time.After(time.Second)
		r.Observe(worker.Polled{Queue: "text", Took: time.Second, Delivered: 1})
		r.Observe(worker.Polled{Queue: "celery", Took: time.Hour})
		require.JSONEq(t, `{
			"queue_depth": 7, "in_flight": 1, "dlq_depth": 5, "tasks_enqueued_total": 0,
			"tasks_completed_total": {"SUCCESS": 1, "FAILURE": 2},
			"task_processing_duration_seconds": {"min": 1, "max": 6, "avg": 3, "count": 3},
			"result_storage_retries_total": 3, "consumer_poll_latency_seconds": 1, "healthy": true,
			"queues": {
				"text": {
					"queue_depth": 3, "in_flight": 0, "dlq_depth": 5, "tasks_enqueued_total": 0,
					"tasks_completed_total": {"SUCCESS": 1, "FAILURE": 1},
					"task_processing_duration_seconds": {"min": 1, "max": 2, "avg": 1.5, "count": 2},
					"result_storage_retries_total": 2, "consumer_poll_latency_seconds": 1
				},
				"images": {
					"queue_depth": 4, "in_flight": 1, "dlq_depth": 5, "tasks_enqueued_total": 0,
					"tasks_completed_total": {"SUCCESS": 0, "FAILURE": 1},
					"task_processing_duration_seconds": {"min": 6, "max": 6, "avg": 6, "count": 1},
					"result_storage_retries_total": 1, "consumer_poll_latency_seconds": 0.25
				},
				"plain": {
					"queue_depth": 0, "in_flight": 0, "dlq_depth": 0, "tasks_enqueued_total": 0,
					"tasks_completed_total": {"SUCCESS": 0, "FAILURE": 0},
					"task_processing_duration_seconds": {"min": 0, "max": 0, "avg": 0, "count": 0},
					"result_storage_retries_total": 2, "consumer_poll_latency_seconds": 0
				}
			}
		}`, documentOf(t, r))
	})
}

func documentOf(t *testing.T, r *RayServe) string {
	t.Helper()
	text, err := json.Marshal(r.document(t.Context()))
	require.NoError(t, err)
	return string(text)
}

// TestRayServeMeasuresEveryHandlerThatRan, also where its end completes no task.
func TestRayServeMeasuresEveryHandlerThatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			end  func(*tasks.Request) worker.Event
			want int64
		}{
			"retried":            {func(q *tasks.Request) worker.Event { return worker.TaskRetried{Request: q} }, 1},
			"rejected":           {func(q *tasks.Request) worker.Event { return worker.TaskRejected{Request: q} }, 1},
			"ignored":            {func(q *tasks.Request) worker.Event { return worker.TaskIgnored{Request: q} }, 1},
			"revoked":            {func(q *tasks.Request) worker.Event { return worker.TaskRevoked{Request: q} }, 1},
			"cancelled":          {func(q *tasks.Request) worker.Event { return worker.TaskCancelled{Request: q} }, 1},
			"known from earlier": {func(q *tasks.Request) worker.Event { return worker.TaskSucceeded{Request: q} }, 0},
		} {
			r, _, _ := newTestRayServe()
			runTask(r, "text", time.Second, tt.end)
			require.Equal(t, tt.want, r.document(t.Context()).Duration.Count, name)
			require.Zero(t, r.document(t.Context()).InFlight, name)
			require.Zero(t, r.document(t.Context()).Completed.Failure, name)
		}
		r, _, _ := newTestRayServe()
		runTask(r, "text", time.Second, func(q *tasks.Request) worker.Event { // two events tell of one run
			r.Observe(worker.TaskRejected{Request: q})
			return worker.TaskFailed{Request: q, Runtime: time.Second}
		})
		require.EqualValues(t, 1, r.document(t.Context()).Duration.Count)
		require.EqualValues(t, 1, r.document(t.Context()).Completed.Failure)

		r, _, _ = newTestRayServe()
		r.Observe(worker.TaskRejected{Request: &tasks.Request{Queue: "text"}}) // its handler was not called
		require.Zero(t, r.document(t.Context()).Duration.Count)
	})
}

// TestRayServeIsNotHealthy: what can't be known is null, not zero.
func TestRayServeIsNotHealthy(t *testing.T) {
	r, unasked, unready := newTestRayServe()
	*unasked = errors.New("away")
	d := r.document(t.Context())
	require.False(t, d.Healthy)
	require.Equal(t, "away", d.Error)
	require.Nil(t, d.QueueDepth)
	require.Nil(t, d.Queues["text"].DLQDepth)
	require.Contains(t, documentOf(t, r), `"queue_depth":null`)

	*unready = errors.New("not consuming")
	require.Equal(t, "not consuming", r.document(t.Context()).Error)

	r, _, unready = newTestRayServe()
	*unready = errors.New("not consuming")
	d = r.document(t.Context())
	require.False(t, d.Healthy)
	require.EqualValues(t, 7, *d.QueueDepth)
}

// TestDepthsForWhoeverAsksNext: one who asks and leaves spoils nobody's answer.
func TestDepthsForWhoeverAsksNext(t *testing.T) {
	depths := &Depths{Ask: func(ctx context.Context) (map[string]int64, error) { return map[string]int64{"text": 3}, ctx.Err() }}
	gone, leave := context.WithCancel(t.Context())
	leave()
	found, err := depths.current(gone)
	require.NoError(t, err)
	require.EqualValues(t, 3, found["text"])
}

func TestRayServeEndpoint(t *testing.T) {
	r, _, _ := newTestRayServe()
	health, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0", RayServe: r})
	require.NoError(t, err)
	code, text := asker(t, health)("/rayserve")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, documentOf(t, r), text)
	require.NoError(t, health.Stop(t.Context()))
}

func TestRayServeCollector(t *testing.T) {
	r, _, _ := newTestRayServe()
	require.NoError(t, testutil.CollectAndCompare(r, strings.NewReader(`
# HELP lovage_rayserve_result_store_retries_total Attempts to store a result of a Ray Serve task that failed.
# TYPE lovage_rayserve_result_store_retries_total counter
lovage_rayserve_result_store_retries_total 3
# HELP lovage_rayserve_results_dropped_total Results of Ray Serve tasks that were never stored.
# TYPE lovage_rayserve_results_dropped_total counter
lovage_rayserve_results_dropped_total 300
# HELP lovage_rayserve_results_kept Results of Ray Serve tasks that are kept in memory until they can be stored.
# TYPE lovage_rayserve_results_kept gauge
lovage_rayserve_results_kept 30
`)))
	problems, err := testutil.CollectAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestDroppedMessagesAreCounted: those that are kept nowhere.
func TestDroppedMessagesAreCounted(t *testing.T) {
	m := newTestMetrics(nil)
	for _, event := range []worker.Event{
		worker.MessageUnprocessable{}, worker.TaskUnknown{}, // dropped
		worker.MessageUnprocessable{KeptIn: "q", Fate: worker.Kept}, worker.TaskUnknown{KeptIn: "q", Fate: worker.Kept}, worker.TaskUnknown{Fate: worker.HandedBack},
	} {
		m.Observe(event)
	}
	require.InDelta(t, 2, testutil.ToFloat64(m.dropped), 0)
}
