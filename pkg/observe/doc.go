// Package observe turns what the worker tells its observers into logs in
// Celery's words, Sentry events and a health endpoint. Nothing here can change
// what happens to a task.
package observe
