package config

// lovageTable is what Celery's configuration has no word for.
func lovageTable() []Setting {
	return []Setting{
		{Name: "broker", Kind: Choice, Choices: []string{"embedded"},
			Doc: "embedded runs a broker inside the worker; short for broker_url: embedded://."},
		{Name: "hostname", Kind: Text, Default: "celery@%h",
			Doc: "Node name (-n); %h = host name, %n = its first part, %d = its domain."},
		{Name: "queues", Kind: Served,
			Doc: "Consumes these queues only (-Q). A list with maps says which protocol a queue's messages have, and adds to task_queues: " +
				"{name: …, protocol: celery or rayserve}. A rayserve queue takes max_retries, failed_task_queue, unprocessable_task_queue, " +
				"result_channel_prefix (rayserve-result-), result_expiry (3600) and max_result_size (4194304)."},
		{Name: "exclude_queues", Kind: Names, Doc: "Consumes all but these queues (-X)."},

		{Name: "unprocessable_queue", Kind: Text, Default: `"%s.unprocessable"`,
			Doc: "Where messages go that can't be decoded; %s = the queue's name, \"\" drops them with an error line."},
		{Name: "unknown_task", Kind: Choice, Choices: []string{"reject", "requeue"}, Default: "reject",
			Doc: "Messages of tasks that aren't registered here: reject stores a failure, requeue hands them to other workers."},
		{Name: "unknown_task_attempts", Kind: Int, Range: between(1, 1024), Default: "10",
			Doc: "With unknown_task: requeue, how many deliveries before the message is rejected."},
		{Name: "retry_countdown_max", Kind: Seconds, Range: between(0, 31_536_000), Default: "86400",
			Doc: "Longest wait of a retry; one that asks for more waits so long, with a warning. 0 = no limit."},
		{Name: "worker_dedup_window", Kind: Int, Range: between(0, 10_000_000), Default: "16384",
			Doc: "How many finished messages are remembered, so that what the broker delivers twice runs once; 0 = none."},
		{Name: "worker_autoscale.min", Kind: Int, Range: between(1, 1_000_000), Default: "1",
			Doc: "Slots at least, where worker_autoscale.max is set."},
		{Name: "worker_autoscale.max", Kind: Int, Range: between(1, 1_000_000),
			Doc: "Slots at most (--autoscale=max,min): their number follows how many messages the queues have, and worker_concurrency has no effect; null = off."},
		{Name: "worker_autoscale.target_depth_per_slot", Kind: Int, Range: between(1, 1_000_000), Default: "1",
			Doc: "How many messages, ready or in flight, there may be for each slot before there is one more."},
		{Name: "dead_letter_queue", Kind: Text, Default: `""`,
			Doc: "Where rejected messages go; \"\" drops them, as Celery does."},
		{Name: "max_attempts", Kind: Int, Range: between(0, 1024), Default: "0",
			Doc: "Deliveries of a message before it goes to dead_letter_queue, those counted that ended in a crash; 0 = no limit."},
		{Name: "auto_ack", Kind: Bool, Default: "false",
			Doc: "The broker acks what it hands over: acks_late has no effect, and a crash loses what runs."},

		{Name: "limits.envelope", Kind: Int, Range: between(1024, maxSize), Default: "104857600", Doc: "Longest message in bytes."},
		{Name: "limits.body", Kind: Int, Range: between(1024, maxSize), Default: "67108864", Doc: "Longest body in bytes, decompressed."},
		{Name: "limits.depth", Kind: Int, Range: between(1, 10_000), Default: "200", Doc: "How deeply lists and maps may be nested."},
		{Name: "limits.items", Kind: Int, Range: between(1, maxSize), Default: "5000000", Doc: "How many values a message may hold."},

		{Name: "log.format", Kind: Choice, Choices: []string{"console", "json"}, Default: "console", Doc: "How log lines look."},
		{Name: "log.level", Kind: Choice, Choices: []string{"debug", "info", "warning", "error", "critical", "fatal"}, Default: "info",
			Doc: "Least severe line that is logged (-l)."},
		{Name: "health.listen", Kind: Address, Default: `""`,
			Doc: "host:port of health checks and metrics over HTTP, such as \":8080\"; \"\" = none."},
		{Name: "health.watchdog", Kind: Seconds, Range: between(0, 86_400), Default: "30",
			Doc: "Not ready when nothing came for so long though slots are free and a queue has messages; 0 = never."},
		{Name: "health.pprof", Kind: Bool, Default: "false", Doc: "Profiles of the Go runtime under /debug/pprof/ on health.listen."},
	}
}

// maxSize is the largest number of bytes that a setting can allow: gRPC holds
// message sizes in 32 bits.
const maxSize = 1<<31 - 1

// kubemqTable holds for every KubeMQ connection, the broker's and the result
// backend's. Where an option of one connection says the same, the option wins.
func kubemqTable() []Setting {
	return []Setting{
		{Name: "kubemq.auth_token", Kind: Text, Default: `""`, Doc: "Token, where the URL has none."},
		{Name: "kubemq.tls.enabled", Kind: Bool, Default: "false", Doc: "TLS, as kubemq+tls:// says."},
		{Name: "kubemq.tls.ca_file", Kind: Text, Default: `""`, Doc: "Certificates to trust (PEM); \"\" = the system's."},
		{Name: "kubemq.tls.cert_file", Kind: Text, Default: `""`, Doc: "The worker's own certificate (PEM)."},
		{Name: "kubemq.tls.key_file", Kind: Text, Default: `""`, Doc: "Its key (PEM)."},
		{Name: "kubemq.tls.server_name", Kind: Text, Default: `""`, Doc: "Name that the server's certificate must carry; \"\" = the URL's host."},
		{Name: "kubemq.strategy", Kind: Choice, Choices: []string{"auto", "direct", "single", "batch"}, Default: "auto",
			Doc: "How messages are taken; auto asks the server what it can do."},
		{Name: "kubemq.max_delay", Kind: Seconds, Range: between(1, 86_400), Default: "43200",
			Doc: "Longest delay the server takes; longer ones go in hops."},
		{Name: "kubemq.retention", Kind: Seconds, Range: between(0, 31_536_000), Default: "0",
			Doc: "How long the server keeps messages (its Store.MaxRetention, often 24 h); delays stay below it; 0 = not known, not checked."},
		{Name: "kubemq.keepalive", Kind: Seconds, Range: between(0, 86_400), Default: "360",
			Doc: "Pause between gRPC pings; 0 = none."},
		{Name: "kubemq.keepalive_timeout", Kind: Seconds, Range: between(1, 3600), Default: "5",
			Doc: "How long a connection may owe every answer before it is made anew."},
		{Name: "kubemq.allow_fast_keepalive", Kind: Bool, Default: "false",
			Doc: "Allows a pause below 5 minutes, and pings without an open call: the server must be set to allow that, else it closes the connection."},
		{Name: "kubemq.max_send_size", Kind: Int, Range: between(1024, maxSize), Default: "104857600", Doc: "Longest gRPC message sent, in bytes."},
		{Name: "kubemq.max_receive_size", Kind: Int, Range: between(1024, maxSize), Default: "104857600", Doc: "Longest gRPC message received, in bytes."},
		{Name: "kubemq.client_id_prefix", Kind: Text, Default: "lovage", Doc: "How the worker's client ids begin."},
	}
}

// embeddedTable is the broker that runs inside the worker (broker: embedded) or
// alone (worker broker).
func embeddedTable() []Setting {
	return []Setting{
		{Name: "embedded_broker.listen", Kind: Address, Default: "127.0.0.1:50000", Doc: "host:port that Python clients connect to."},
		{Name: "embedded_broker.http_listen", Kind: Address, Default: `""`,
			Doc: "host:port of health, queue info and metrics over HTTP, such as 127.0.0.1:9090; \"\" = none."},
		{Name: "embedded_broker.data_dir", Kind: Text, Default: "lovage-data", Doc: "Directory of the stored messages; \"\" keeps them in memory."},
		{Name: "embedded_broker.sync", Kind: Bool, Default: "true",
			Doc: "Answers a send only when it is on disk; false may lose the last messages at a power failure."},
		{Name: "embedded_broker.max_delay", Kind: Seconds, Range: between(1, 31_536_000), Default: "86400", Doc: "Longest delay a message may ask for."},
		{Name: "embedded_broker.max_expiration", Kind: Seconds, Range: between(1, 31_536_000), Default: "86400",
			Doc: "Longest life a message may ask for; results live no longer."},
		{Name: "embedded_broker.retention", Kind: Seconds, Range: between(0, 31_536_000), Default: "0",
			Doc: "Removes messages older than that, delayed ones too, so keep it longer than the longest delay; 0 = never."},
		{Name: "embedded_broker.count_crashes", Kind: Bool, Default: "false",
			Doc: "Counts a delivery whose client vanished as an attempt, as a nack; KubeMQ doesn't."},
		{Name: "embedded_broker.auth_token", Kind: Text, Default: `""`, Doc: "Token that clients must send; \"\" = none."},
		{Name: "embedded_broker.tls.cert_file", Kind: Text, Default: `""`, Doc: "The broker's certificate (PEM); \"\" = no TLS."},
		{Name: "embedded_broker.tls.key_file", Kind: Text, Default: `""`, Doc: "Its key (PEM)."},
		{Name: "embedded_broker.tls.client_ca_file", Kind: Text, Default: `""`,
			Doc: "Certificates that clients' certificates must be signed by (PEM); \"\" = clients need none."},
	}
}

// brokerOptions are the keys of broker_transport_options.
func brokerOptions() []Setting {
	return concat([]Setting{
		{Name: "dead_letter_queue", Kind: Text, For: "dead_letter_queue"},
		{Name: "max_receive_count", Kind: Int, Range: between(0, 1024), For: "max_attempts"},
		{Name: "auto_ack", Kind: Bool, For: "auto_ack"},
		{Name: "retry_countdown_max", Kind: Seconds, Range: between(0, 31_536_000), For: "retry_countdown_max"},
	}, connectionOptions())
}

// resultOptions are the keys of result_backend_transport_options.
func resultOptions() []Setting {
	return append(notApplicable("results are read, not consumed", rowsOf("max_receive_count dead_letter_queue auto_ack retry_countdown_max")...),
		connectionOptions()...)
}

// connectionOptions are the names that kubemq-celery 1.1 takes for a
// connection, and those that kombu's other transports take.
func connectionOptions() []Setting {
	return concat([]Setting{
		{Name: "auth_token", Kind: Text, For: "kubemq.auth_token"},
		{Name: "tls_enabled", Kind: Bool, For: "kubemq.tls.enabled"},
		{Name: "tls_ca_file", Kind: Text, For: "kubemq.tls.ca_file"},
		{Name: "tls_cert_file", Kind: Text, For: "kubemq.tls.cert_file"},
		{Name: "tls_key_file", Kind: Text, For: "kubemq.tls.key_file"},
		{Name: "max_send_size", Kind: Int, Range: between(1024, maxSize), For: "kubemq.max_send_size"},
		{Name: "max_receive_size", Kind: Int, Range: between(1024, maxSize), For: "kubemq.max_receive_size"},
		{Name: "connection_timeout", Kind: Seconds, Range: between(0.001, 3600), For: "broker_connection_timeout"},
		{Name: "grpc_keepalive_time", Kind: Seconds, Range: between(0, 86_400), For: "kubemq.keepalive"},
		{Name: "grpc_keepalive_timeout", Kind: Seconds, Range: between(1, 3600), For: "kubemq.keepalive_timeout"},
		{Name: "client_id_prefix", Kind: Text, For: "kubemq.client_id_prefix"},
	}, notYet("messages expire by their own expires",
		Setting{Name: "message_expiration", Kind: Int, Range: between(0, 86_400), Quiet: "0"},
	), notApplicable("the worker asks for as many messages as it has free slots",
		Setting{Name: "wait_timeout"}, Setting{Name: "max_batch_size"}, Setting{Name: "polling_interval"},
	), notApplicable("the worker subscribes again for ever",
		Setting{Name: "fanout_max_retries"},
	), notApplicable("kubemq.allow_fast_keepalive says it",
		Setting{Name: "grpc_permit_without_calls", Quiet: "false"},
	), notApplicable("the worker purges no queues",
		Setting{Name: "purge_wait_seconds"},
	), notApplicable("it is an option of another broker", rowsOf(otherBrokersOptions)...))
}

// otherBrokersOptions are options of kombu's Redis, Sentinel and AMQP
// transports, which a configuration that moves to KubeMQ may still hold.
const otherBrokersOptions = `
ack_emulation body_encoding client_name confirm_publish deadletter_queue fanout_patterns fanout_prefix
global_keyprefix health_check_interval interval_max interval_start interval_step master_name max_connections
max_retries min_other_sentinels priority_steps queue_order_strategy retry_on_timeout sentinel_kwargs sep
socket_connect_timeout socket_keepalive socket_keepalive_options socket_timeout unacked_index_key unacked_key
unacked_mutex_expire unacked_mutex_key unacked_restore_limit visibility_timeout predefined_queues region
queue_name_prefix retry_policy`
