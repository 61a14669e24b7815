package config

import "strings"

// pythonTable is what a Python configuration may hold that no Go worker can act
// on, and the settings of backends that don't exist here yet.
func pythonTable() []Setting {
	return concat(notApplicable("tasks are compiled into the worker",
		Setting{Name: "imports", Default: "[]"},
		Setting{Name: "include", Default: "[]"},
	), notApplicable("a task calls another one directly when it wants it run on the spot",
		Setting{Name: "task_always_eager", Default: "false", Quiet: "false"},
		Setting{Name: "task_eager_propagates", Default: "false", Quiet: "false", Old: "CELERY_EAGER_PROPAGATES_EXCEPTIONS"},
		Setting{Name: "task_store_eager_result", Default: "false", Quiet: "false"},
	), notApplicable("Go errors carry their own trace",
		Setting{Name: "task_remote_tracebacks", Default: "false"},
	), notApplicable("arguments are shortened in another way",
		Setting{Name: "task_repr_maxlevels", Default: "3"},
	), notApplicable("use task_reject_on_worker_lost",
		Setting{Name: "task_retry_on_worker_lost", Default: "false", Quiet: "false"},
	), poolTable(), notApplicable("beat is a process of its own: run celery beat",
		Setting{Name: "beat_schedule", Default: "{}"},
		Setting{Name: "beat_scheduler", Default: "celery.beat:PersistentScheduler"},
		Setting{Name: "beat_schedule_filename", Default: "celerybeat-schedule"},
		Setting{Name: "beat_sync_every", Default: "0"},
		Setting{Name: "beat_max_loop_interval", Default: "0"},
		Setting{Name: "beat_cron_starting_deadline"},
		Setting{Name: "beat_enable_remote_control", Default: "false"},
		Setting{Name: "beat_remote_control_max_tick_age"},
	), notApplicable("the URL says it: set broker_url",
		rowsOf("broker_transport broker_host broker_port broker_user broker_password broker_vhost")...,
	), notApplicable("the worker has a fixed, small number of connections",
		Setting{Name: "broker_pool_limit", Default: "10"},
		Setting{Name: "broker_pool_acquire_timeout"},
	), notApplicable("results are written as JSON, and only clients read them",
		Setting{Name: "result_accept_content"},
		Setting{Name: "result_compression"},
		Setting{Name: "result_cache_max", Default: "-1", Old: "CELERY_MAX_CACHED_RESULTS"},
		Setting{Name: "result_backend_thread_safe", Default: "false"},
	), notApplicable("it belongs to the rpc and amqp backends",
		Setting{Name: "result_exchange", Default: "celeryresults"},
		Setting{Name: "result_exchange_type", Default: "direct"},
		Setting{Name: "result_persistent"},
	), backendTable())
}

// poolTable is the process pool, its prefetching and Python's logging.
func poolTable() []Setting {
	return concat(notApplicable("tasks run in goroutines of one process",
		Setting{Name: "worker_pool", Default: "prefork"},
		Setting{Name: "worker_pool_putlocks", Default: "true"},
		Setting{Name: "worker_pool_restarts", Default: "false"},
		Setting{Name: "worker_pool_start_method", Default: "fork"},
		Setting{Name: "worker_max_tasks_per_child"},
		Setting{Name: "worker_max_memory_per_child"},
		Setting{Name: "worker_lost_wait", Default: "10.0", Old: "CELERYD_WORKER_LOST_WAIT"},
		Setting{Name: "worker_proc_alive_timeout", Default: "4.0"},
	), notApplicable("the worker takes a message only when a slot is free",
		Setting{Name: "worker_prefetch_multiplier", Default: "4"},
		Setting{Name: "worker_disable_prefetch", Default: "false", Quiet: "true"},
		Setting{Name: "worker_enable_prefetch_count_reduction", Default: "true"},
	), notApplicable("the broker keeps messages until their ETA",
		Setting{Name: "worker_eta_task_limit"},
	), notApplicable("it plugs in a Python class",
		Setting{Name: "worker_agent"},
		Setting{Name: "worker_autoscaler", Default: "celery.worker.autoscale:Autoscaler"},
		Setting{Name: "worker_consumer", Default: "celery.worker.consumer:Consumer"},
		Setting{Name: "worker_timer"},
		Setting{Name: "worker_timer_precision", Default: "1.0"},
	), notApplicable("log.format and log.level set the log",
		Setting{Name: "worker_hijack_root_logger", Default: "true"},
		Setting{Name: "worker_log_color"},
		Setting{Name: "worker_log_datefmt"},
		Setting{Name: "worker_log_format", Default: `"[%(asctime)s: %(levelname)s/%(processName)s] %(message)s"`},
		Setting{Name: "worker_task_log_datefmt"},
		Setting{Name: "worker_task_log_format",
			Default: `"[%(asctime)s: %(levelname)s/%(processName)s] %(task_name)s[%(task_id)s]: %(message)s"`},
		Setting{Name: "worker_redirect_stdouts", Default: "true", Old: "CELERY_REDIRECT_STDOUTS"},
		Setting{Name: "worker_redirect_stdouts_level", Default: "WARNING", Old: "CELERY_REDIRECT_STDOUTS_LEVEL"},
	))
}

// backendTable is the result backends of Celery that this worker doesn't have.
func backendTable() []Setting {
	return concat(anything(notYet("it is for the Redis result backend",
		concat([]Setting{
			{Name: "redis_socket_timeout", Default: "120.0"},
			{Name: "redis_retry_on_timeout", Default: "false"},
			{Name: "redis_socket_keepalive", Default: "false"},
		}, rowsOf(`redis_backend_use_ssl redis_backend_health_check_interval redis_backend_credential_provider
			redis_client_name redis_db redis_host redis_max_connections redis_username redis_password redis_port
			redis_socket_connect_timeout`))...,
	)), notApplicable("the worker has no such result backend",
		concat([]Setting{
			{Name: "database_url", Old: "CELERY_RESULT_DBURI"},
			{Name: "database_engine_options", Default: "{pool_pre_ping: true, pool_recycle: 3600}", Old: "CELERY_RESULT_ENGINE_OPTIONS"},
			{Name: "database_engine_callback"},
			{Name: "database_short_lived_sessions", Default: "false", Old: "CELERY_RESULT_DB_SHORT_LIVED_SESSIONS"},
			{Name: "database_table_schemas"},
			{Name: "database_table_names", Old: "CELERY_RESULT_DB_TABLENAMES"},
			{Name: "database_create_tables_at_setup", Default: "true"},
			{Name: "cache_backend_options", Default: "{}"},
			{Name: "cassandra_options", Default: "{}"},
			{Name: "azureblockblob_container_name", Default: "celery"},
			{Name: "azureblockblob_retry_initial_backoff_sec", Default: "2"},
			{Name: "azureblockblob_retry_increment_base", Default: "2"},
			{Name: "azureblockblob_retry_max_attempts", Default: "3"},
			{Name: "azureblockblob_base_path", Default: `""`},
			{Name: "azureblockblob_connection_timeout", Default: "20"},
			{Name: "azureblockblob_read_timeout", Default: "120"},
			{Name: "gcs_base_path", Default: `""`},
			{Name: "gcs_ttl", Default: "0"},
			{Name: "gcs_threadpool_maxsize", Default: "10"},
			{Name: "cosmosdbsql_database_name", Default: "celerydb"},
			{Name: "cosmosdbsql_collection_name", Default: "celerycol"},
			{Name: "cosmosdbsql_consistency_level", Default: "Session"},
			{Name: "cosmosdbsql_max_retry_attempts", Default: "9"},
			{Name: "cosmosdbsql_max_retry_wait_time", Default: "30"},
			{Name: "elasticsearch_save_meta_as_text", Default: "true"},
		}, rowsOf(`cache_backend cassandra_entry_ttl cassandra_keyspace cassandra_port cassandra_read_consistency
			cassandra_servers cassandra_bundle_path cassandra_table cassandra_write_consistency cassandra_auth_provider
			cassandra_auth_kwargs s3_access_key_id s3_secret_access_key s3_bucket s3_base_path s3_endpoint_url s3_region
			gcs_bucket gcs_project couchbase_backend_settings arangodb_backend_settings mongodb_backend_settings
			elasticsearch_retry_on_timeout elasticsearch_max_retries elasticsearch_timeout`))...,
	))
}

// rowsOf makes rows of names alone.
func rowsOf(names string) []Setting {
	fields := strings.Fields(names)
	rows := make([]Setting, 0, len(fields))
	for _, name := range fields {
		rows = append(rows, Setting{Name: name})
	}
	return rows
}

func anything(rows []Setting) []Setting {
	for i := range rows {
		rows[i].Kind = Any
	}
	return rows
}
