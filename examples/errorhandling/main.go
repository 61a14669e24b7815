// Command errorhandling is a worker with the patterns of docs/error-handling.md.
package main

import (
	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func main() { command.Main(registry()) }

func registry() *tasks.Registry {
	r := tasks.NewRegistry()
	registerRetries(r)
	registerAutomatic(r)
	registerAcks(r)
	registerHooks(r)
	registerIdempotent(r)
	return r
}
