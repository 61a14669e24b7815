// Package gosdk checks that KubeMQ's own Go SDK, unmodified, works with the
// embedded broker: its users share queues with Celery tasks.
package gosdk
