package observe_test

import (
	"fmt"

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
