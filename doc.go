// Package lovage is a Celery worker written in Go: a Python app keeps its Celery
// calls, and one static binary runs the tasks with Go handlers.
//
// Users import pkg/tasks for their handlers and pkg/command for the program
// around them; docs/architecture.md shows the rest.
package lovage
