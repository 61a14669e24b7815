// Package command is the command line of a worker: flags, configuration,
// signals, exit codes and the wiring of all other packages. It is the only
// package that installs signal handlers, writes to the terminal and exits.
//
// A program is its tasks and one call:
//
//	func main() {
//		r := tasks.NewRegistry()
//		tasks.Handle(r, "shop.process_order", processOrder)
//		command.Main(r)
//	}
package command
