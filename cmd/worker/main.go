// Command worker is Lovage's command line with the demo tasks. A program of
// your own looks the same, with your tasks in the registry.
package main

import (
	"github.com/lovage-project/lovage/examples/demo"
	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func main() {
	registry := tasks.NewRegistry()
	demo.Register(registry)
	command.Main(registry)
}
