package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoutes(t *testing.T) {
	a := Route{Task: "Shop.A", Options: map[string]any{"queue": "High.Priority"}}
	b := Route{Task: "shop.*", Options: map[string]any{"queue": "low", "priority": 3}}
	for text, want := range map[string][][]Route{
		"task_routes: null": nil,
		"task_routes: {}":   {{}},
		"task_routes: {Shop.A: High.Priority, shop.*: {queue: low, priority: 3}}":                        {{a, b}},
		"task_routes: {shop.*: {queue: low, priority: 3}, Shop.A: {queue: High.Priority}}":               {{b, a}},
		"task_routes:\n- {Shop.A: High.Priority}\n- {shop.*: &low {queue: low, priority: 3}, x.*: *low}": {{a}, {b, {Task: "x.*", Options: b.Options}}},
		"task_routes: [[[shop.*, {queue: low, priority: 3}], [Shop.A, High.Priority]]]":                  {{b, a}},
	} {
		settings := mustLoad(t, text)
		require.Equal(t, want, settings.Worker.TaskRoutes, text)
	}
}

func TestBadRoutes(t *testing.T) {
	for text, want := range map[string]string{
		"task_routes: shop.routers.Router":   `"shop.routers.Router" is not allowed: a map of tasks to queues, or a list of such maps (only Python can call a router)`,
		"task_routes: [shop.routers.Router]": "(only Python can call a router)",
		"task_routes: {a: null}":             `null for "a" is not allowed: a queue, or a map of options such as {queue: …}`,
		"task_routes: {a: 5}":                `5 for "a" is not allowed: a queue, or a map of options such as {queue: …} (in quotes)`,
		"task_routes: {a: [b]}":              `a list for "a" is not allowed`,
		"task_routes: [[a, b]]":              `"a" in a list of routes is not allowed: a pair [task, route]`,
		"task_routes: [[[{a: b}, c]]]":       "a map is not allowed: a task's name or a glob",
	} {
		_, _, err := load(Source{Path: "celery.yaml"}, []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
