package config

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// arrival is a setting with a value other than its default, and where it arrives.
type arrival struct {
	text string
	got  func(*Settings) any
	want any
}

const withLetters = "\ndead_letter_queue: dlq"

// fixed are supported settings with a single value, or that only change what
// others allow.
var fixed = []string{"result_serializer", "task_create_missing_queues"}

func TestEverySupportedSettingArrives(t *testing.T) {
	rows, defaults := arrivals(), mustLoad(t, "")
	maps.Copy(rows, sentryArrivals())
	for _, s := range Table() {
		row, tested := rows[s.Name]
		if s.Support == Supported && !slices.Contains(fixed, s.Name) {
			require.True(t, tested, "%s is not tested", s.Name)
		}
		if tested {
			require.NotEqual(t, row.want, row.got(defaults), "%s is tested with its default", s.Name)
			require.Equal(t, row.want, row.got(mustLoad(t, row.text)), s.Name)
		}
	}
}

func arrivals() map[string]arrival {
	return map[string]arrival{
		"broker":                           {"broker: embedded", func(s *Settings) any { return s.Broker.Embedded }, true},
		"broker_url":                       {"broker_url: kubemq://h:1", func(s *Settings) any { return s.Broker.Consume.Address }, "h:1"},
		"broker_read_url":                  {"broker_read_url: kubemq://h:1", func(s *Settings) any { return s.Broker.Consume.Address }, "h:1"},
		"broker_write_url":                 {"broker_write_url: kubemq://h:1", func(s *Settings) any { return s.Broker.Publish.Address }, "h:1"},
		"broker_transport_options":         {"broker_transport_options: {auth_token: t}", func(s *Settings) any { return s.Broker.Consume.AuthToken.Reveal() }, "t"},
		"broker_connection_timeout":        {"broker_connection_timeout: 2.5", func(s *Settings) any { return s.Broker.Consume.ConnectTimeout }, 2500 * time.Millisecond},
		"broker_use_ssl":                   {"broker_use_ssl: true", func(s *Settings) any { return s.Broker.Consume.TLS.Enabled }, true},
		"result_backend":                   {"result_backend: kubemq://h:1", func(s *Settings) any { return s.Results.KubeMQ.Address }, "h:1"},
		"result_backend_transport_options": {"result_backend: kubemq://h\nresult_backend_transport_options: {max_send_size: 4194304}", func(s *Settings) any { return s.Results.KubeMQ.MaxSendSize }, 4 << 20},
		"result_expires":                   {"result_expires: 3600", func(s *Settings) any { return s.Results.Expires }, time.Hour},
		"result_extended":                  {"result_extended: true", func(s *Settings) any { return s.Results.Extended }, true},
		"task_queues":                      {"task_queues: [a, {name: b, routing_key: x}]", func(s *Settings) any { return s.Worker.Queues }, []string{"a", "b"}},
		"task_default_queue":               {"task_default_queue: q", func(s *Settings) any { return s.Worker.Queues }, []string{"q"}},
		"task_routes": {"task_routes: {a: b}", func(s *Settings) any { return s.Worker.TaskRoutes },
			[][]Route{{{Task: "a", Options: map[string]any{"queue": "b"}}}}},
		"task_inherit_parent_priority": {"task_inherit_parent_priority: true",
			func(s *Settings) any { return s.Worker.TaskInheritParentPriority }, true},
		"queues":                          {"task_queues: [a]\nqueues: [b, b, a]", func(s *Settings) any { return s.Worker.Queues }, []string{"b", "a"}},
		"exclude_queues":                  {"task_queues: [a, b]\nexclude_queues: [a, z]", func(s *Settings) any { return s.Worker.Queues }, []string{"b"}},
		"task_acks_late":                  {"task_acks_late: true", func(s *Settings) any { return s.Worker.AcksLate }, true},
		"task_acks_on_failure_or_timeout": {"task_acks_on_failure_or_timeout: false", func(s *Settings) any { return s.Worker.AcksOnFailure || s.Worker.AcksOnTimeout }, false},
		"task_acks_on_failure":            {"task_acks_on_failure: false", func(s *Settings) any { return !s.Worker.AcksOnFailure && s.Worker.AcksOnTimeout }, true},
		"task_acks_on_timeout":            {"task_acks_on_timeout: false", func(s *Settings) any { return s.Worker.AcksOnFailure && !s.Worker.AcksOnTimeout }, true},
		"task_reject_on_worker_lost":      {"task_reject_on_worker_lost: true", func(s *Settings) any { return s.Worker.RejectOnWorkerLost }, true},
		"task_ignore_result":              {"task_ignore_result: on", func(s *Settings) any { return s.Worker.IgnoreResult }, true},
		"task_store_errors_even_if_ignored": {"task_store_errors_even_if_ignored: 1",
			func(s *Settings) any { return s.Worker.StoreErrorsEvenIfIgnored }, true},
		"worker_deduplicate_successful_tasks": {"worker_deduplicate_successful_tasks: true",
			func(s *Settings) any { return s.Worker.DeduplicateSuccessful }, true},
		"worker_dedup_window": {"worker_dedup_window: 0",
			func(s *Settings) any { return s.Worker.DedupWindow }, 0},
		"worker_autoscale.min": {"worker_autoscale: {min: 2, max: 3}", func(s *Settings) any { return s.Worker.Autoscale.Min }, 2},
		"worker_autoscale.max": {"worker_autoscale: {max: 3}", func(s *Settings) any { return s.Worker.Autoscale.Max }, 3},
		"worker_autoscale.target_depth_per_slot": {"worker_autoscale: {max: 3, target_depth_per_slot: 7}",
			func(s *Settings) any { return s.Worker.Autoscale.TargetDepthPerSlot }, 7},
		"task_track_started":     {"task_track_started: True", func(s *Settings) any { return s.Worker.TrackStarted }, true},
		"accept_content":         {"accept_content: [json, application/x-msgpack]", func(s *Settings) any { return s.Worker.AcceptContent }, []string{"json", "application/x-msgpack"}},
		"task_serializer":        {"task_serializer: msgpack", func(s *Settings) any { return s.Worker.TaskSerializer }, "msgpack"},
		"task_compression":       {"task_compression: ZSTD", func(s *Settings) any { return s.Worker.TaskCompression }, "zstd"},
		"task_protocol":          {"task_protocol: 1", func(s *Settings) any { return s.Worker.TaskProtocol }, 1},
		"timezone":               {"timezone: Europe/Berlin", func(s *Settings) any { return s.Worker.Timezone.String() }, "Europe/Berlin"},
		"enable_utc":             {"enable_utc: false", func(s *Settings) any { return s.Worker.Timezone }, time.Local},
		"worker_concurrency":     {"worker_concurrency: 3", func(s *Settings) any { return s.Worker.Concurrency }, 3},
		"hostname":               {"hostname: w1@%n", func(s *Settings) any { return s.Worker.Hostname }, "w1@%n"},
		"unprocessable_queue":    {"unprocessable_queue: bad", func(s *Settings) any { return s.Worker.UnprocessableQueue }, "bad"},
		"unknown_task":           {"unknown_task: requeue", func(s *Settings) any { return s.Worker.UnknownTask }, "requeue"},
		"retry_countdown_max":    {"retry_countdown_max: 3600", func(s *Settings) any { return s.Worker.RetryCountdownMax }, time.Hour},
		"unknown_task_attempts":  {"unknown_task_attempts: 3", func(s *Settings) any { return s.Worker.UnknownTaskAttempts }, 3},
		"max_attempts":           {"max_attempts: 3" + withLetters, func(s *Settings) any { return s.Worker.MaxAttempts }, 3},
		"dead_letter_queue":      {withLetters, func(s *Settings) any { return s.Worker.DeadLetterQueue }, "dlq"},
		"auto_ack":               {"auto_ack: yes", func(s *Settings) any { return s.Worker.AutoAck }, true},
		"limits.envelope":        {"limits: {envelope: 2000}", func(s *Settings) any { return s.Worker.Limits.Envelope }, 2000},
		"limits.body":            {"limits: {body: 2000}", func(s *Settings) any { return s.Worker.Limits.Body }, 2000},
		"limits.depth":           {"limits: {depth: 20}", func(s *Settings) any { return s.Worker.Limits.Depth }, 20},
		"limits.items":           {"limits: {items: 1_000}", func(s *Settings) any { return s.Worker.Limits.Items }, 1000},
		"log.format":             {"log: {format: JSON}", func(s *Settings) any { return s.Log.Format }, "json"},
		"log.level":              {"log: {level: FATAL}", func(s *Settings) any { return s.Log.Level }, "critical"},
		"health.listen":          {`health: {listen: ":8080"}`, func(s *Settings) any { return s.Health.Listen }, ":8080"},
		"kubemq.auth_token":      {"kubemq: {auth_token: t}", func(s *Settings) any { return s.Broker.Publish.AuthToken.Reveal() }, "t"},
		"kubemq.tls.enabled":     {"kubemq: {tls: {enabled: true}}", func(s *Settings) any { return s.Broker.Consume.TLS.Enabled }, true},
		"kubemq.tls.ca_file":     {"kubemq: {tls: {enabled: true, ca_file: f}}", func(s *Settings) any { return s.Broker.Consume.TLS.CAFile }, "f"},
		"kubemq.tls.cert_file":   {"kubemq: {tls: {enabled: true, cert_file: f, key_file: k}}", func(s *Settings) any { return s.Broker.Consume.TLS.CertFile }, "f"},
		"kubemq.tls.key_file":    {"kubemq: {tls: {enabled: true, cert_file: f, key_file: k}}", func(s *Settings) any { return s.Broker.Consume.TLS.KeyFile }, "k"},
		"kubemq.tls.server_name": {"kubemq: {tls: {enabled: true, server_name: n}}", func(s *Settings) any { return s.Broker.Consume.TLS.ServerName }, "n"},
		"kubemq.strategy":        {"kubemq: {strategy: batch}", func(s *Settings) any { return s.Broker.Consume.Strategy }, "batch"},
		"kubemq.max_delay":       {"kubemq: {max_delay: 1h}", func(s *Settings) any { return s.Broker.Consume.MaxDelay }, time.Hour},
		"kubemq.retention":       {"kubemq: {retention: 1d}", func(s *Settings) any { return s.Broker.Consume.Retention }, 24 * time.Hour},
		"kubemq.keepalive":       {"kubemq: {keepalive: 400}", func(s *Settings) any { return s.Broker.Consume.Keepalive }, 400 * time.Second},
		"kubemq.allow_fast_keepalive": {"kubemq: {allow_fast_keepalive: true}",
			func(s *Settings) any { return s.Broker.Consume.AllowFastKeepalive }, true},
		"kubemq.max_send_size":           {"kubemq: {max_send_size: 4194304}", func(s *Settings) any { return s.Broker.Consume.MaxSendSize }, 4 << 20},
		"kubemq.max_receive_size":        {"kubemq: {max_receive_size: 4194304}", func(s *Settings) any { return s.Broker.Consume.MaxReceiveSize }, 4 << 20},
		"kubemq.client_id_prefix":        {"kubemq: {client_id_prefix: shop}", func(s *Settings) any { return s.Broker.Consume.ClientIDPrefix }, "shop"},
		"embedded_broker.listen":         {"embedded_broker: {listen: 127.0.0.1:1}", func(s *Settings) any { return s.EmbeddedBroker.Listen }, "127.0.0.1:1"},
		"embedded_broker.http_listen":    {"embedded_broker: {http_listen: 127.0.0.1:2}", func(s *Settings) any { return s.EmbeddedBroker.HTTPListen }, "127.0.0.1:2"},
		"embedded_broker.data_dir":       {`embedded_broker: {data_dir: ""}`, func(s *Settings) any { return s.EmbeddedBroker.DataDir }, ""},
		"embedded_broker.sync":           {"embedded_broker: {sync: off}", func(s *Settings) any { return s.EmbeddedBroker.Sync }, false},
		"embedded_broker.retention":      {"embedded_broker: {retention: 7d}", func(s *Settings) any { return s.EmbeddedBroker.Retention }, 7 * 24 * time.Hour},
		"embedded_broker.count_crashes":  {"embedded_broker: {count_crashes: on}", func(s *Settings) any { return s.EmbeddedBroker.CountCrashes }, true},
		"embedded_broker.max_delay":      {"embedded_broker: {max_delay: 2d}", func(s *Settings) any { return s.EmbeddedBroker.MaxDelay }, 48 * time.Hour},
		"embedded_broker.max_expiration": {"embedded_broker: {max_expiration: 2d}", func(s *Settings) any { return s.EmbeddedBroker.MaxExpiration }, 48 * time.Hour},
		"embedded_broker.auth_token":     {"embedded_broker: {auth_token: t}", func(s *Settings) any { return s.EmbeddedBroker.AuthToken.Reveal() }, "t"},
		"embedded_broker.tls.cert_file":  {"embedded_broker: {tls: {cert_file: c, key_file: k}}", func(s *Settings) any { return s.EmbeddedBroker.TLS.CertFile }, "c"},
		"embedded_broker.tls.key_file":   {"embedded_broker: {tls: {cert_file: c, key_file: k}}", func(s *Settings) any { return s.EmbeddedBroker.TLS.KeyFile }, "k"},
		"embedded_broker.tls.client_ca_file": {"embedded_broker: {tls: {cert_file: c, key_file: k, client_ca_file: a}}",
			func(s *Settings) any { return s.EmbeddedBroker.TLS.ClientCAFile }, "a"},
		"broker_connection_retry": {"broker_connection_retry: false",
			func(s *Settings) any { return s.Broker.Consume.Retries }, -1},
		"broker_connection_retry_on_startup": {"broker_connection_retry_on_startup: false",
			func(s *Settings) any { return s.Broker.Consume.StartRetries }, -1},
		"broker_connection_max_retries": {"broker_connection_max_retries: 7",
			func(s *Settings) any { return s.Broker.Consume.Retries }, 7},
		"kubemq.keepalive_timeout": {"kubemq: {keepalive_timeout: 10}",
			func(s *Settings) any { return s.Broker.Consume.KeepaliveTimeout }, 10 * time.Second},
		"health.watchdog": {"health: {watchdog: 60}", func(s *Settings) any { return s.Health.Watchdog }, time.Minute},
		"health.pprof":    {"health: {pprof: true}", func(s *Settings) any { return s.Health.Profiles }, true},
	}
}
