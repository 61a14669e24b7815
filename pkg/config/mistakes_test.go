package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMistakes holds the exact line for each kind of mistake.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		// Keys.
		{"worker_concurency: 4", "1: worker_concurency: unknown setting, the nearest is worker_concurrency"},
		{"\n\nkubemq:\n  tls:\n    cafile: x", "5: kubemq.tls.cafile: unknown setting, the nearest is kubemq.tls.ca_file"},
		{"embeddd_broker: {}", "1: embeddd_broker: unknown setting, the nearest is embedded_broker"},
		{"qqqqqqqq: 1", "1: qqqqqqqq: unknown setting"},
		{"CELERYD_CONCURRENCY: 4", "1: CELERYD_CONCURRENCY: old name, write worker_concurrency"},
		{"CELERY_ACKS_LATE: true", "1: CELERY_ACKS_LATE: old name, write task_acks_late"},
		{"CELERY_TASK_ACKS_LATE: true", "1: CELERY_TASK_ACKS_LATE: old name, write task_acks_late"},
		{"BROKER_URL: x", "1: BROKER_URL: old name, write broker_url"},
		{"CELERY_TASK_RESULT_EXPIRES: 1", "1: CELERY_TASK_RESULT_EXPIRES: old name, write result_expires"},
		{"Task_Acks_Late: true", "1: Task_Acks_Late: unknown setting, the nearest is task_acks_late"},
		{"task_acks_late: true\n\ntask_acks_late: false", "3: task_acks_late: is given twice, first in line 1"},
		{"log: {level: info}\nlog: {level: error}", "2: log.level: is given twice, first in line 1"},
		{"log.level: info\nlog: {level: error}", "2: log.level: is given twice, first in line 1"},
		{"task_routes: {a: {b: 1, b: 2}}", `1: task_routes: has the key "b" twice, again in line 1`},
		{"broker_transport_options:\n  max_receive_cuont: 3", "2: broker_transport_options.max_receive_cuont: unknown option, the nearest is max_receive_count"},
		{"broker_transport_options: {zzzz: 3}", "1: broker_transport_options.zzzz: unknown option"},
		{"<<: {a: b}", "1: keys must be plain names"},
		{"? [a]\n: b", "1: keys must be plain names"},

		// Documents.
		{"- a", "1: a list is not allowed: a map"},
		{"a: b: c", " is not YAML: mapping values are not allowed in this context"},
		{"kubemq: {auth_token: *hush}", " is not YAML: a text that begins with * needs quotes"},
		{"log: {}\n---\nlog: {}", " is not YAML: a second document follows the first"},
		{"log: [a]", "1: log: a list is not allowed: a map"},
		{"log: info", `1: log: "info" is not allowed: a map`},

		// Kinds.
		{"worker_concurrency: 0", "1: worker_concurrency: 0 is not allowed: at least 1"},
		{"worker_concurrency: -1", "1: worker_concurrency: -1 is not allowed: at least 1"},
		{"worker_concurrency: four", `1: worker_concurrency: "four" is not allowed: a whole number, from 1 to 1000000 or auto`},
		{`worker_concurrency: "4"`, `1: worker_concurrency: "4" is not allowed: a whole number, from 1 to 1000000 or auto`},
		{"worker_concurrency: 4.5", "1: worker_concurrency: 4.5 is not allowed: a whole number, from 1 to 1000000 or auto"},
		{"worker_concurrency: 99999999999999999999", "1: worker_concurrency: 99999999999999999999 is not allowed: a whole number, from 1 to 1000000 or auto"},
		{"worker_concurrency: [1]", "1: worker_concurrency: a list is not allowed: a whole number, from 1 to 1000000 or auto"},
		{"task_acks_late: maybe", `1: task_acks_late: "maybe" is not allowed: true or false`},
		{"task_acks_late: 2", "1: task_acks_late: 2 is not allowed: true or false"},
		{"task_acks_late:", "1: task_acks_late: null is not allowed: true or false"},
		{"task_protocol: 3", "1: task_protocol: 3 is not allowed: at most 2"},
		{"result_expires: -1", "1: result_expires: -1 is not allowed: at least 0"},
		{"result_expires: soon", `1: result_expires: "soon" is not allowed: seconds (30, 0.5) or a time with a unit (500ms, 30s, 15m, 12h, 1d), at least 0`},
		{"result_expires: .nan", "1: result_expires: .nan is not allowed: seconds (30, 0.5) or a time with a unit (500ms, 30s, 15m, 12h, 1d), at least 0"},
		{"result_expires: .inf", "1: result_expires: .inf is not allowed: at most 9000000000"},
		{"result_expires: 1e300", "1: result_expires: 1e300 is not allowed: at most 9000000000"},
		{"kubemq: {max_delay: 2d}", `1: kubemq.max_delay: "2d" is not allowed: at most 86400`},
		{"broker_heartbeat: often", `1: broker_heartbeat: "often" is not allowed: a number, at least 0`},
		{"task_default_queue: 12", "1: task_default_queue: 12 is not allowed: a text (in quotes)"},
		{"task_default_queue: {a: b}", "1: task_default_queue: a map is not allowed: a text"},
		{"log: {format: xml}", `1: log.format: "xml" is not allowed: one of console, json`},
		{"result_serializer: pickle", `1: result_serializer: "pickle" is not allowed: json`},
		{"unknown_task: drop", `1: unknown_task: "drop" is not allowed: one of reject, requeue`},
		{"accept_content: json", `1: accept_content: "json" is not allowed: a list of names`},
		{"accept_content: [json, 3]", "1: accept_content: 3 in the list is not allowed: a list of names (in quotes)"},
		{"task_publish_retry_policy: 3", "1: task_publish_retry_policy: 3 is not allowed: a map"},
		{"health: {listen: 8080}", "1: health.listen: 8080 is not allowed: host:port (in quotes)"},
		{`health: {listen: "8080"}`, `1: health.listen: "8080" is not allowed: host:port`},
		{`health: {listen: ":http"}`, `1: health.listen: ":http" is not allowed: host:port`},
		{`embedded_broker: {listen: ""}`, `1: embedded_broker.listen: "" is not allowed: host:port`},
		{"task_routes: &a {b: *a}", "1: task_routes: is nested deeper than 64 levels"},
		{"task_routes: {a: &a [1,1,1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]," +
			" d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]}", "1: task_routes: holds more than 100000 values"},
		{"hostname: w@%z", `1: hostname: node name "w@%z": %z is not allowed: one of %h, %n, %d, %i, %I, %%`},
		{"timezone: Mars/Phobos", `1: timezone: "Mars/Phobos" is not allowed: a zone of the IANA database, such as Europe/Berlin`},
		{"timezone: " + strings.Repeat("x", 100), `1: timezone: "` + strings.Repeat("x", 60) + `…" is not allowed: a zone of the IANA database, such as Europe/Berlin`},

		// Content.
		{"accept_content: [json, xml]", `1: accept_content: "xml" is not allowed: one of json, yaml, msgpack, application/json, application/x-yaml, application/x-msgpack`},
		{"accept_content: [pickle]", "1: accept_content: no serializer is left: one of json, yaml, msgpack, application/json, application/x-yaml, application/x-msgpack"},
		{"task_serializer: pickle", `1: task_serializer: "pickle" is not allowed: one of json, yaml, msgpack`},

		// Queues.
		{"task_queues: []", "1: task_queues: an empty list is not allowed: at least one queue"},
		{"task_queues: a", `1: task_queues: "a" is not allowed: a list of queue names, a list of maps with a name, or a map keyed by name`},
		{"task_queues: [a, b, a]", `1: task_queues: queue "a" is named twice`},
		{"task_queues: [a, 1]", "1: task_queues: 1 in the list is not allowed: a queue's name (in quotes)"},
		{"task_queues: [{exchange: a}]", "1: task_queues: a map in the list is not allowed: a queue's name"},
		{`task_queues: [""]`, `1: task_queues: "" in the list is not allowed: a queue's name`},
		{"task_queues: [a]\nqueues: [b]\ntask_create_missing_queues: false", `2: queues: "b" is not in task_queues, and task_create_missing_queues is false`},
		{"exclude_queues: [celery]", "1: exclude_queues: leaves no queue to consume"},
		{`unprocessable_queue: "%s"`, `1: unprocessable_queue: "celery" is consumed by this worker: bad messages would come back to it`},
		{"broker: remote", `1: broker: "remote" is not allowed: embedded`},
		{`unprocessable_queue: "%d.bad"`, `1: unprocessable_queue: "%d.bad" is not allowed: %s is the only placeholder`},
		{"dead_letter_queue: celery", `1: dead_letter_queue: "celery" is consumed by this worker: rejected messages would come back to it`},
		{"max_attempts: 3", "1: max_attempts: 3 is given without dead_letter_queue: messages beyond the limit would be lost"},
		{"broker_transport_options:\n  max_receive_count: 3", "2: broker_transport_options.max_receive_count: 3 is given without dead_letter_queue: messages beyond the limit would be lost"},
		{"broker_transport_options: {max_receive_count: 5000}", "1: broker_transport_options.max_receive_count: 5000 is not allowed: at most 1024"},
	} {
		_, _, err := loadText(t, tt.text)
		require.EqualError(t, err, "config: celery.yaml:"+tt.want, tt.text)
		var mistake *Error
		require.ErrorAs(t, err, &mistake)
	}
}

func TestMistakesOutsideTheFile(t *testing.T) {
	for _, tt := range []struct {
		source Source
		want   string
	}{
		{Source{Environ: []string{"LOVAGE_WORKER_CONCURRENCY=0"}}, "environment variable LOVAGE_WORKER_CONCURRENCY: worker_concurrency: 0 is not allowed: at least 1"},
		{Source{Environ: []string{"CELERY_BROKER_URL=redis://:pw@h"}}, "environment variable CELERY_BROKER_URL: broker_url: redis:// is not supported yet (Redis): kubemq://host:port, kubemq+tls://host:port or embedded://"},
		{Source{Environ: []string{"LOVAGE_TASK_ROUTES={"}}, "environment variable LOVAGE_TASK_ROUTES: task_routes: line 1: did not find expected node content"},
		{Source{Environ: []string{"LOVAGE_QUEUES=a,,b"}}, `environment variable LOVAGE_QUEUES: queues: "" in the list is not allowed: a list of queue names, or of maps with a name and a protocol`},
		{Source{Overrides: map[string]string{"worker.concurrency": "many"}}, `command line: worker_concurrency: "many" is not allowed: a whole number, from 1 to 1000000 or auto`},
		{Source{Overrides: map[string]string{"worker.concurency": "1"}}, "command line: worker.concurency: unknown setting, the nearest is worker_concurrency"},
		{Source{Overrides: map[string]string{"x\ny": "1"}}, "command line: x y: unknown setting"},
	} {
		_, _, err := Load(tt.source)
		require.EqualError(t, err, "config: "+tt.want)
	}
}

// A mistake may be in a default that meets what was set; there is no line for it.
func TestMistakeInACombination(t *testing.T) {
	_, _, err := loadText(t, "task_queues: [a, a.unprocessable]")
	require.EqualError(t, err, `config: unprocessable_queue: "a.unprocessable" is consumed by this worker: bad messages would come back to it`)
}
