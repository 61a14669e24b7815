package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// A program that has a Prometheus registry of its own registers the worker's
// metrics there, and hands them to worker.New as an observer.
func ExampleNewMetrics() {
	metrics := observe.NewMetrics(observe.MetricsConfig{Tasks: []string{"shop.process_order"}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	var observer worker.Observer = metrics
	observer.Observe(worker.TaskReceived{Request: &tasks.Request{Task: "shop.process_order"}})

	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if one.GetCounter().GetValue() > 0 {
				fmt.Println(family.GetName(), one.GetLabel()[0].GetValue(), one.GetCounter().GetValue())
			}
		}
	}
	// Output: lovage_tasks_received_total shop.process_order 1
}

// The metrics of Ray Serve's adapter are an observer for worker.New and a handler for
// whatever server a program has.
func ExampleNewRayServe() {
	metrics := observe.NewRayServe(observe.RayServeConfig{
		Queues: []observe.RayServeQueue{{Name: "inference", FailedTaskQueue: "inference.failed"}},
		Depths: &observe.Depths{Ask: func(context.Context) (map[string]int64, error) {
			return map[string]int64{"inference": 3}, nil // of the broker
		}},
		Ready: func() error { return nil },
	})
	metrics.Observe(worker.TaskSucceeded{Request: &tasks.Request{Queue: "inference"}, Runtime: time.Second})

	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/rayserve", http.NoBody))
	fmt.Println(strings.Join(strings.Split(answer.Body.String(), "\n")[:8], "\n"))
	// Output:
	// {
	//   "queue_depth": 3,
	//   "in_flight": 0,
	//   "dlq_depth": 0,
	//   "tasks_enqueued_total": 0,
	//   "tasks_completed_total": {
	//     "SUCCESS": 1,
	//     "FAILURE": 0
}
