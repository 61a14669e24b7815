// Command worker is the Go peer of the interop tests: the stock command line
// with the tasks that the Python side calls.
package main

import (
	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func main() {
	command.Main(registry())
}

func registry() *tasks.Registry {
	r := tasks.NewRegistry()
	registerArguments(r)
	registerValues(r)
	registerFailures(r)
	registerOutcomes(r)
	registerRetries(r)
	registerLetters(r)
	registerRuns(r)
	registerAcks(r)
	registerCanvas(r)
	registerOnce(r)
	registerRayServe(r)
	return r
}
