package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Names keep their letters and dots, and what is not given has the adapter's default.
func TestRayServeQueues(t *testing.T) {
	settings := mustLoad(t, `
queues:
  - {name: Models.Text, protocol: RayServe}
  - name: images
    protocol: rayserve
    max_retries: 3
    failed_task_queue: images.failed
    unprocessable_task_queue: images.bad
    result_channel_prefix: answers-
    result_expiry: 2h
    max_result_size: 1048576
  - {name: celery}
  - plain
`)
	require.Equal(t, []string{"Models.Text", "images", "celery", "plain"}, settings.Worker.Queues)
	require.Equal(t, []string{"celery", "plain"}, settings.Worker.CeleryQueues())
	require.Equal(t, []RayServeQueue{
		{Name: "Models.Text", ResultChannelPrefix: "rayserve-result-", ResultExpiry: time.Hour, MaxResultSize: 4 << 20},
		{
			Name: "images", MaxRetries: 3, FailedTaskQueue: "images.failed", UnprocessableTaskQueue: "images.bad",
			ResultChannelPrefix: "answers-", ResultExpiry: 2 * time.Hour, MaxResultSize: 1 << 20,
		},
	}, settings.Worker.RayServe)
}

// What is consumed where queues has maps: they add to task_queues, and a list of
// names in a higher layer chooses.
func TestServedQueues(t *testing.T) {
	const maps = "queues: [{name: ray, protocol: rayserve}, {name: a}]\n"
	for name, tt := range map[string]struct {
		text     string
		source   Source
		consumed []string
		rayServe []string
	}{
		"maps alone":           {maps, Source{}, []string{"ray", "a"}, []string{"ray"}},
		"beside task_queues":   {maps + "task_queues: [a, b]", Source{}, []string{"a", "b", "ray"}, []string{"ray"}},
		"names alone":          {"queues: [b, b, a]\ntask_queues: [a]", Source{}, []string{"b", "a"}, nil},
		"-Q":                   {maps, Source{Overrides: map[string]string{"queues": "ray"}}, []string{"ray"}, []string{"ray"}},
		"-Q with another one":  {maps, Source{Overrides: map[string]string{"queues": "z,ray"}}, []string{"z", "ray"}, []string{"ray"}},
		"-Q without it":        {maps, Source{Overrides: map[string]string{"queues": "a"}}, []string{"a"}, nil},
		"-X":                   {maps, Source{Overrides: map[string]string{"exclude_queues": "ray"}}, []string{"a"}, nil},
		"names in a variable":  {maps, Source{Environ: []string{"LOVAGE_QUEUES=ray"}}, []string{"ray"}, []string{"ray"}},
		"maps in a variable":   {maps, Source{Environ: []string{"LOVAGE_QUEUES=[{name: x, protocol: rayserve}]"}}, []string{"x"}, []string{"x"}},
		"and -Q above them":    {"", Source{Environ: []string{"LOVAGE_QUEUES=[{name: x, protocol: rayserve}, y]"}, Overrides: map[string]string{"queues": "x"}}, []string{"x"}, []string{"x"}},
		"no missing queues":    {maps + "task_create_missing_queues: false", Source{Overrides: map[string]string{"queues": "ray"}}, []string{"ray"}, []string{"ray"}},
		"an alias for each":    {"task_routes: &r {name: ray, protocol: rayserve}\nqueues: [*r, a]", Source{}, []string{"ray", "a"}, []string{"ray"}},
		"an empty list is not": {"queues: []", Source{}, []string{"celery"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			settings, _, err := load(tt.source, []byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.consumed, settings.Worker.Queues)
			var rayServe []string
			for _, queue := range settings.Worker.RayServe {
				rayServe = append(rayServe, queue.Name)
			}
			require.Equal(t, tt.rayServe, rayServe)
		})
	}
}

func TestMistakesInQueues(t *testing.T) {
	for text, want := range map[string]string{
		"queues: [{name: r, protocol: rayserve},\n {name: r}]":                       `1: queues: queue "r" is named twice`,
		"queues: [{name: r}, r]":                                                     `1: queues: queue "r" is named twice`,
		"queues: [r,\n {protocol: rayserve}]":                                        "1: queues: the map in line 2 has no name",
		"queues: [{name: ''}]":                                                       `1: queues: "" in the list is not allowed: a queue's name`,
		"queues: [{name: 1}]":                                                        `1: queues: 1 in the list is not allowed: a queue's name (in quotes)`,
		"queues: {r: {}}":                                                            "1: queues: a map is not allowed: a list of queue names, or of maps with a name and a protocol",
		"queues: [{name: r, protocol: ray}]":                                         `1: queues.r.protocol: "ray" is not allowed: one of celery, rayserve`,
		"queues:\n- name: r\n  protocol: rayserve\n  max_retry: 3":                   "4: queues.r.max_retry: unknown option, the nearest is max_retries",
		"queues:\n- name: r\n  protocol: rayserve\n  frobnicate: 3":                  "4: queues.r.frobnicate: unknown option",
		"queues: [{name: r, max_retries: 3}]":                                        "1: queues.r.max_retries: is for a queue with protocol: rayserve",
		"queues: [{name: r, protocol: celery, result_expiry: 3}]":                    "1: queues.r.result_expiry: is for a queue with protocol: rayserve",
		"queues: [{name: r, protocol: rayserve, protocol: celery}]":                  "1: queues.r.protocol: is given twice",
		"queues: [{name: r, protocol: rayserve, max_retries: 5000}]":                 "1: queues.r.max_retries: 5000 is not allowed: at most 1024",
		"queues: [{name: r, protocol: rayserve, result_expiry: 2d}]":                 `1: queues.r.result_expiry: "2d" is not allowed: at most 86400`,
		"queues: [{name: r, protocol: rayserve, result_expiry: 500ms}]":              "1: queues.r.result_expiry: 500ms is not allowed: whole seconds",
		"queues: [{name: r, protocol: rayserve, max_result_size: 10}]":               "1: queues.r.max_result_size: 10 is not allowed: at least 8192",
		"queues: [{name: r, protocol: rayserve, result_channel_prefix: ''}]":         `1: queues.r.result_channel_prefix: "" is not allowed: results need queues of their own`,
		"queues: [{name: r, protocol: rayserve, failed_task_queue: r}]":              `1: queues.r.failed_task_queue: "r" is consumed by this worker: what is put aside would come back to it`,
		"queues: [x, {name: r, protocol: rayserve, unprocessable_task_queue: x}]":    `1: queues.r.unprocessable_task_queue: "x" is consumed by this worker: what is put aside would come back to it`,
		"queues: [{name: r, protocol: rayserve}]\ndead_letter_queue: r":              `2: dead_letter_queue: "r" is consumed by this worker: rejected messages would come back to it`,
		"queues: [celery, {name: celery.unprocessable, protocol: rayserve}]\n#":      `unprocessable_queue: "celery.unprocessable" is consumed by this worker: bad messages would come back to it`,
		"queues: [{name: r, protocol: rayserve, failed_task_queue: [a]}]":            "1: queues.r.failed_task_queue: a list is not allowed: a text",
		"queues: [{name: r, protocol: rayserve, ? [a] : b}]":                         "1: queues.r.: unknown option",
		"queues: [{name: r}, [a]]":                                                   "1: queues: a list in the list is not allowed: a queue's name",
		"queues: [a, {name: r, protocol: rayserve}]\nexclude_queues: [a, r]":         "2: exclude_queues: leaves no queue to consume",
		"queues: [{name: r, protocol: rayserve}]\ntask_queues: [{name: r}, x, r]":    `2: task_queues: queue "r" is named twice`,
		"queues: [{name: r, protocol: rayserve, Max_Retries: 3}]":                    "1: queues.r.Max_Retries: unknown option, the nearest is max_retries",
		"queues: [{name: a, protocol: rayserve, failed_task_queue: 'b'}, {name: b}]": `1: queues.a.failed_task_queue: "b" is consumed by this worker: what is put aside would come back to it`,
	} {
		_, _, err := loadText(t, text)
		prefix := "config: celery.yaml:"
		if want[0] == 'u' { // a default has no line
			prefix = "config: "
		}
		require.EqualError(t, err, prefix+want, text)
	}
}

// A Ray Serve queue has no queue of its own for what Celery's can't process.
func TestUnprocessableQueueOfCeleryQueuesOnly(t *testing.T) {
	settings := mustLoad(t, "queues: [celery, {name: r, protocol: rayserve}, {name: r.unprocessable, protocol: rayserve}]")
	require.Len(t, settings.Worker.RayServe, 2)
}
