// Command lovage is Lovage's command line with the tasks of the benchmark. It is what
// a user's worker is, but for one thing: it answers each line on its standard input
// with a line of figures about itself, and ends when that input does, so that it
// doesn't outlive the benchmark.
package main

import (
	"os"
	"syscall"

	"github.com/lovage-project/lovage/bench/meter"
	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func main() {
	m := meter.New()
	registry := tasks.NewRegistry()
	register(registry, m)
	go func() {
		_ = m.Answer(os.Stdin, os.Stdout) // ends with the benchmark, and so does this process
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
	}()
	command.Main(registry)
}
