// Package rayserve is the client of queues that KubeMQ's Ray Serve adapter, or a Lovage
// worker in its place, takes tasks from: it enqueues tasks, reads and awaits their
// results, cancels them, asks for synchronous inference and follows progress. On the
// wire it is one of the adapter's own producers (docs/protocol.md §24).
package rayserve
