// Command errorhandling is a worker with the patterns of docs/error-handling.md.
package main

import (
	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
)

func main() {
	keys := onceresult.Unbound()
	command.Main(registry(keys), command.WithOnceResults(keys))
}

// registry has all tasks of the guide; keys is where those that run once keep theirs.
func registry(keys tasks.OnceStore) *tasks.Registry {
	r := tasks.NewRegistry()
	registerRetries(r)
	registerAutomatic(r)
	registerAcks(r)
	registerHooks(r)
	registerIdempotent(r, keys)
	return r
}
