package config

// Table lists every setting, in the order of configs/celery.yaml. The caller
// may change the slice it gets.
func Table() []Setting {
	return concat(
		grouped("Broker", brokerTable()),
		grouped("Results", resultTable()),
		grouped("Queues and routing", queueTable()),
		grouped("Tasks", taskTable()),
		grouped("Content and time", contentTable()),
		grouped("Worker", workerTable()),
		grouped("Events and remote control", eventTable()),
		grouped("What Celery does not have", lovageTable()),
		grouped("Sentry", sentryTable()),
		grouped("Every KubeMQ connection", kubemqTable()),
		grouped("The embedded broker", embeddedTable()),
		grouped("Only for Python or for other processes", pythonTable()),
	)
}

func grouped(group string, rows []Setting) []Setting {
	for i := range rows {
		rows[i].Group = group
	}
	return rows
}

// notYet marks rows that a later version will act on.
func notYet(note string, rows ...Setting) []Setting {
	return unsupported(NotYet, note, rows)
}

// notApplicable marks rows that are accepted unread: whatever they hold in a
// Python configuration, it can't mean anything here.
func notApplicable(note string, rows ...Setting) []Setting {
	for i := range rows {
		rows[i].Kind = Any
	}
	return unsupported(NotApplicable, note, rows)
}

func unsupported(support Support, note string, rows []Setting) []Setting {
	for i := range rows {
		rows[i].Support = support
		if rows[i].Note == "" {
			rows[i].Note = note
		}
	}
	return rows
}

func concat(parts ...[]Setting) []Setting {
	var rows []Setting
	for _, part := range parts {
		rows = append(rows, part...)
	}
	return rows
}

// brokerTable is Celery's broker_* settings.
func brokerTable() []Setting {
	return concat([]Setting{
		{Name: "broker_url", Kind: URL, Default: "kubemq://localhost:50000",
			Doc: "The broker: kubemq://[:token@]host:port, kubemq+tls://… or embedded://. Celery's default is amqp://."},
		{Name: "broker_read_url", Kind: URL, Doc: "Consumes from this broker instead of broker_url."},
		{Name: "broker_write_url", Kind: URL, Doc: "Publishes to this broker instead of broker_url."},
		{Name: "broker_transport_options", Kind: Options, Default: "{}", Fields: brokerOptions(),
			Doc: "Options of the connection, under the names that kubemq-celery uses."},
		{Name: "broker_connection_timeout", Kind: Seconds, Range: between(0.001, 3600), Default: "4",
			Doc: "How long one attempt to connect may take."},
		{Name: "broker_use_ssl", Kind: Any, Default: "false",
			Doc: "TLS for the broker: true, or a map with ca_certs, certfile and keyfile. kubemq+tls:// says the same."},
		{Name: "broker_connection_retry", Kind: Bool, Default: "true",
			Doc: "Connects again after a lost connection; false stops the worker then, with exit code 1."},
		{Name: "broker_connection_retry_on_startup", Kind: Bool,
			Doc: "Keeps trying at the first connection; null = as broker_connection_retry says."},
		{Name: "broker_connection_max_retries", Kind: Int, Range: notNegative(),
			Doc: "Stops the worker, with exit code 1, after so many attempts that follow a first; 0 or null = never. Celery's default is 100."},
	}, notYet("it is for RabbitMQ",
		Setting{Name: "broker_channel_error_retry", Kind: Bool, Default: "false", Doc: "Treats channel errors like a lost connection."},
	), notYet("one broker URL is used",
		Setting{Name: "broker_failover_strategy", Kind: Text, Doc: "Order in which the URLs of a list are tried."},
	), notYet("it is for RabbitMQ",
		Setting{Name: "broker_heartbeat", Kind: Number, Range: notNegative(), Default: "120", Nullable: true, Doc: "AMQP heartbeat in seconds."},
		Setting{Name: "broker_heartbeat_checkrate", Kind: Number, Range: notNegative(), Default: "3.0", Doc: "How often in a heartbeat it is checked."},
		Setting{Name: "broker_login_method", Kind: Text, Doc: "AMQP login method."},
		Setting{Name: "broker_native_delayed_delivery_queue_type", Kind: Choice, Choices: []string{"classic", "quorum"}, Default: "quorum",
			Doc: "Type of the queues that delay messages."},
	))
}

// resultTable is Celery's result_* settings.
func resultTable() []Setting {
	return concat([]Setting{
		{Name: "result_backend", Kind: URL,
			Doc: "Where results go: kubemq://…, kubemq+tls://…, embedded or disabled://. Not set = disabled."},
		{Name: "result_backend_transport_options", Kind: Options, Default: "{}", Fields: resultOptions(),
			Doc: "Options of the connection, under the names that kubemq-celery uses."},
		{Name: "result_expires", Kind: Seconds, Range: notNegative(), Default: "1d", Nullable: true, Old: "CELERY_TASK_RESULT_EXPIRES",
			Doc: "How long results can be read; 0 or null = as long as the backend keeps them."},
		{Name: "result_extended", Kind: Bool, Default: "false", Doc: "Stores name, args, kwargs, worker, retries and queue too."},
		{Name: "result_serializer", Kind: Choice, Choices: []string{"json"}, Default: "json", Doc: "How results are written."},
	}, notYet("the worker's own retries are used",
		Setting{Name: "result_backend_always_retry", Kind: Bool, Default: "false", Doc: "Retries when a result can't be stored."},
		Setting{Name: "result_backend_max_retries", Kind: Number, Range: notNegative(), Default: ".inf", Doc: "How often."},
		Setting{Name: "result_backend_base_sleep_between_retries_ms", Kind: Int, Range: notNegative(), Default: "10", Doc: "First pause in milliseconds."},
		Setting{Name: "result_backend_max_sleep_between_retries_ms", Kind: Int, Range: notNegative(), Default: "10000", Doc: "Longest pause in milliseconds."},
	), notYet("the worker's own intervals are used",
		Setting{Name: "result_chord_join_timeout", Kind: Seconds, Range: notNegative(), Default: "3.0", Doc: "How long a chord's results are waited for."},
		Setting{Name: "result_chord_retry_interval", Kind: Seconds, Range: notNegative(), Default: "1.0", Doc: "How often a chord is looked at."},
		Setting{Name: "result_chord_expires", Kind: Seconds, Range: notNegative(), Doc: "How long a chord's counters are kept."},
	), notYet("result_expires holds for every result",
		Setting{Name: "result_failure_expires", Kind: Seconds, Range: notNegative(), Doc: "How long failures can be read."},
	))
}

// queueTable is which queues are consumed and where messages are sent.
func queueTable() []Setting {
	return concat([]Setting{
		{Name: "task_queues", Kind: Queues, Doc: "The queues to consume; not set = task_default_queue alone."},
		{Name: "task_default_queue", Kind: Text, Default: "celery", Doc: "The queue of tasks that are routed nowhere else."},
		{Name: "task_create_missing_queues", Kind: Bool, Default: "true", Doc: "Lets -Q name queues that task_queues doesn't."},
		{Name: "task_routes", Kind: Any,
			Doc: "Task names and globs to queues or options, for what the worker publishes; a map or a list of maps."},
		{Name: "task_inherit_parent_priority", Kind: Bool, Default: "false",
			Doc: "Gives callbacks and steps of a chain the priority of the task they follow."},
	}, notYet("the worker has no queue of its own",
		Setting{Name: "worker_direct", Kind: Bool, Default: "false", Quiet: "false", Doc: "Consumes a queue <node name>.dq2 as well."},
	), notYet("priorities are passed on, not set",
		Setting{Name: "task_default_priority", Kind: Int, Range: between(0, 255), Doc: "Priority of messages that the worker publishes."},
		Setting{Name: "task_queue_max_priority", Kind: Int, Range: between(0, 255), Doc: "Number of priorities of a queue."},
	), notYet("exchanges and queue types are for RabbitMQ",
		Setting{Name: "task_default_queue_type", Kind: Choice, Choices: []string{"classic", "quorum"}, Default: "classic", Quiet: "classic", Doc: "Type of task_default_queue."},
		Setting{Name: "task_default_exchange", Kind: Text, Doc: "Exchange of task_default_queue."},
		Setting{Name: "task_default_exchange_type", Kind: Text, Default: "direct", Quiet: "direct", Doc: "Type of that exchange."},
		Setting{Name: "task_default_routing_key", Kind: Text, Doc: "Routing key of task_default_queue."},
		Setting{Name: "task_default_delivery_mode", Kind: Any, Default: "2", Quiet: "2", Doc: "2 = persistent, 1 = transient."},
		Setting{Name: "task_create_missing_queue_type", Kind: Choice, Choices: []string{"classic", "quorum"}, Default: "classic", Quiet: "classic", Doc: "Type of queues named by -Q."},
		Setting{Name: "task_create_missing_queue_exchange_type", Kind: Text, Doc: "Exchange type of queues named by -Q."},
		Setting{Name: "worker_detect_quorum_queues", Kind: Bool, Default: "true", Doc: "Adapts to quorum queues."},
	))
}

// taskTable is how tasks are run, settled and stored.
func taskTable() []Setting {
	return concat([]Setting{
		{Name: "task_acks_late", Kind: Bool, Default: "false", Doc: "Acks after the task has run."},
		{Name: "task_acks_on_failure_or_timeout", Kind: Bool, Default: "true", Doc: "The default of task_acks_on_failure and task_acks_on_timeout."},
		{Name: "task_acks_on_failure", Kind: Bool, Doc: "Acks a late task that failed; false rejects it."},
		{Name: "task_reject_on_worker_lost", Kind: Bool, Doc: "Requeues a late task whose handler took the worker down."},
		{Name: "task_ignore_result", Kind: Bool, Default: "false", Doc: "Stores no results, except for tasks that say otherwise."},
		{Name: "task_store_errors_even_if_ignored", Kind: Bool, Default: "false", Doc: "Stores failures of tasks whose results are ignored."},
		{Name: "task_track_started", Kind: Bool, Default: "false", Doc: "Stores STARTED when a task begins."},
	}, notYet("task options are set where the task is registered",
		Setting{Name: "task_annotations", Kind: Any, Doc: "Overrides task options by task name or \"*\"."},
	), notYet("time limits are not enforced",
		Setting{Name: "task_acks_on_timeout", Kind: Bool, Doc: "Acks a late task that hit its hard time limit; false rejects and requeues it."},
		Setting{Name: "task_time_limit", Kind: Seconds, Range: notNegative(), Old: "CELERYD_TASK_TIME_LIMIT", Doc: "Hard time limit of a task."},
		Setting{Name: "task_soft_time_limit", Kind: Seconds, Range: notNegative(), Old: "CELERYD_TASK_SOFT_TIME_LIMIT", Doc: "Soft time limit of a task."},
	), notYet("rate limits are not enforced",
		Setting{Name: "task_default_rate_limit", Kind: Any, Doc: "Rate limit of tasks that have none, such as \"10/m\"."},
		Setting{Name: "worker_disable_rate_limits", Kind: Bool, Default: "false", Quiet: "true", Old: "CELERY_DISABLE_RATE_LIMITS", Doc: "Ignores rate limits."},
	), notYet("publishing is tried again by the transport's own rules",
		Setting{Name: "task_publish_retry", Kind: Bool, Default: "true", Quiet: "true", Doc: "Tries again when a message can't be published."},
		Setting{Name: "task_publish_retry_policy", Kind: Map,
			Default: "{max_retries: 3, interval_start: 0, interval_max: 1, interval_step: 0.2}", Doc: "How often and when."},
	), notYet("error callbacks of header tasks are taken from the message",
		Setting{Name: "task_allow_error_cb_on_chord_header", Kind: Bool, Default: "false", Quiet: "false", Doc: "Sets a chord's error callback on its header too."},
	))
}

// contentTable is what messages look like, and clocks.
func contentTable() []Setting {
	return []Setting{
		{Name: "accept_content", Kind: Names, Default: "[json]", Doc: "Serializers (names or MIME types) that are decoded."},
		{Name: "task_serializer", Kind: Choice, Choices: []string{"json", "yaml", "msgpack"}, Default: "json",
			Doc: "Of callbacks, steps of a chain and worker call; a retry keeps the serializer of its message."},
		{Name: "task_compression", Kind: Choice, Choices: []string{"gzip", "zlib", "bzip2", "bzip", "lzma", "xz", "brotli", "zstd", "zstandard"},
			Old: "CELERY_MESSAGE_COMPRESSION", Doc: "Of callbacks, steps of a chain and worker call; a retry keeps the compression of its message."},
		{Name: "task_protocol", Kind: Int, Range: between(1, 2), Default: "2",
			Doc: "Message protocol of what the worker publishes."},
		{Name: "timezone", Kind: Text, Doc: "IANA zone of times the worker writes, such as Europe/Berlin; not set = UTC."},
		{Name: "enable_utc", Kind: Bool, Default: "true", Doc: "false makes the machine's zone the default of timezone."},
	}
}

// workerTable is Celery's worker_* settings that have a meaning for one process
// with many goroutines.
func workerTable() []Setting {
	return concat([]Setting{
		{Name: "worker_concurrency", Kind: Int, Choices: []string{"auto"}, Range: between(1, 1_000_000),
			Doc: "How many tasks run at once; auto or not set = the number of CPUs."},
		{Name: "worker_deduplicate_successful_tasks", Kind: Bool, Default: "false",
			Doc: "Does not run late-acked tasks again whose result is stored as SUCCESS."},
	}, notYet("a warm shutdown waits for running tasks",
		Setting{Name: "worker_soft_shutdown_timeout", Kind: Seconds, Range: notNegative(), Default: "0.0", Quiet: "0", Doc: "Time for running tasks before a cold shutdown."},
		Setting{Name: "worker_enable_soft_shutdown_on_idle", Kind: Bool, Default: "false", Quiet: "false", Doc: "Takes that time even when no task runs."},
	), notYet("running tasks go on when the connection is lost",
		Setting{Name: "worker_cancel_long_running_tasks_on_connection_loss", Kind: Bool, Default: "false", Quiet: "false", Doc: "Ends late-acked tasks then."},
	), notYet("revoked ids are not kept over a restart",
		Setting{Name: "worker_state_db", Kind: Text, Doc: "File for revoked task ids."},
	))
}

// eventTable is events and remote control.
func eventTable() []Setting {
	return concat(notYet("no events are sent",
		Setting{Name: "worker_send_task_events", Kind: Bool, Default: "false", Quiet: "false", Old: "CELERY_SEND_EVENTS", Doc: "Sends task events, as -E does."},
		Setting{Name: "task_send_sent_event", Kind: Bool, Default: "false", Quiet: "false", Old: "CELERY_SEND_TASK_SENT_EVENT", Doc: "Sends task-sent for what the worker publishes."},
		Setting{Name: "event_exchange", Kind: Text, Default: "celeryev", Doc: "Where events go."},
		Setting{Name: "event_serializer", Kind: Text, Default: "json", Quiet: "json", Doc: "How events are written."},
		Setting{Name: "event_queue_prefix", Kind: Text, Default: "celeryev", Doc: "Prefix of event readers' queues."},
		Setting{Name: "event_queue_ttl", Kind: Seconds, Range: notNegative(), Default: "5.0", Doc: "How long an event waits for its reader."},
		Setting{Name: "event_queue_expires", Kind: Seconds, Range: notNegative(), Default: "60.0", Doc: "When an unused event queue goes."},
		Setting{Name: "event_queue_exclusive", Kind: Bool, Default: "true", Doc: "Makes event queues exclusive."},
		Setting{Name: "event_queue_durable", Kind: Bool, Default: "false", Doc: "Makes event queues durable."},
	), notYet("remote control is off",
		Setting{Name: "worker_enable_remote_control", Kind: Bool, Default: "true", Quiet: "false", Old: "CELERY_ENABLE_REMOTE_CONTROL", Doc: "Answers celery inspect and control."},
		Setting{Name: "control_exchange", Kind: Text, Default: "celery", Doc: "Where commands come from."},
		Setting{Name: "control_queue_ttl", Kind: Seconds, Range: notNegative(), Default: "300.0", Doc: "How long a command waits."},
		Setting{Name: "control_queue_expires", Kind: Seconds, Range: notNegative(), Default: "10.0", Doc: "When an unused command queue goes."},
		Setting{Name: "control_queue_exclusive", Kind: Bool, Default: "true", Doc: "Makes command queues exclusive."},
		Setting{Name: "control_queue_durable", Kind: Bool, Default: "false", Doc: "Makes command queues durable."},
	), notYet("signed messages are not decoded",
		Setting{Name: "security_certificate", Kind: Text, Doc: "Certificate of the auth serializer."},
		Setting{Name: "security_cert_store", Kind: Text, Doc: "Certificates it trusts."},
		Setting{Name: "security_key", Kind: Text, Doc: "Its private key."},
		Setting{Name: "security_key_password", Kind: Text, Doc: "The key's password."},
		Setting{Name: "security_digest", Kind: Text, Default: "sha256", Doc: "Its digest."},
	))
}
