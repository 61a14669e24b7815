// Package config turns celery.yaml, the environment and the command line into
// typed [Settings]. It imports nothing else of Lovage: the command translates
// Settings into the options of the worker, the transport and the broker.
//
// # Names
//
// Settings carry Celery's own lower-case names (broker_url, task_acks_late,
// worker_concurrency). What Celery lacks stands in sections of its own
// (embedded_broker, kubemq, limits, log, health) or beside them
// (unprocessable_queue, unknown_task). [Table] lists every setting once, with
// its kind, default, range and whether this worker acts on it; validation and
// configs/celery.yaml both come from it.
//
// # Precedence
//
// The command line beats the environment, the environment beats the file, the
// file beats the default. A map or list is replaced as a whole, never merged.
//
// Every setting has one environment variable: LOVAGE_ and its name in upper
// case, dots as underscores (LOVAGE_WORKER_CONCURRENCY, LOVAGE_KUBEMQ_TLS_CA_FILE).
// Besides, the four variables that Celery reads are read: CELERY_BROKER_URL,
// CELERY_BROKER_READ_URL, CELERY_BROKER_WRITE_URL and CELERY_RESULT_BACKEND; the
// LOVAGE_ variable of the same setting beats them. An empty variable counts as
// not set; a pair of quotes ("") is an empty text. LOVAGE_CONFIG is left to the
// command.
//
// # Mistakes
//
// Unknown settings, values of the wrong kind or out of range, keys given twice
// and Celery's old upper-case names are errors ([Error]), one line each.
// Settings of Celery that this worker does not act on are accepted with one
// [Warning] each.
package config
