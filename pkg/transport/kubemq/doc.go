// Package kubemq is the transport for brokers that speak KubeMQ's gRPC API: the
// KubeMQ server and the embedded broker.
//
// # Data path
//
//	Receive ─► strategy ─► polls ─► stream ─► broker
//	                                   │ answer
//	           delivery ◄─ transaction ┘
//	Ack, Nack, … ─► transaction ─► stream: settlement + barrier ─► nil, or ErrLost
//
// A Get is answered by a transaction: the messages that are held until they are
// settled, on the stream that asked for them. How many streams there are and how
// much a Get asks for is the strategy's business (direct.go, single.go,
// batch.go); which one serves is found out by probing the server (probe.go).
//
// # What is not obvious
//
//   - The broker answers a settlement only when it failed. A settlement counts
//     when a later answer on the same stream has come, so each is followed by an
//     ActiveOffsets request, one for all that are on their way (settle.go).
//   - A Get can't be taken back. The answer to one that nobody waits for any more
//     is handed back to the queue, or serves the next Receive (polls.go).
//   - A message id is unique per send: servers index delayed messages by it.
//   - Requests are read before anybody can answer them, because their time runs from
//     when they are read; what waits is bounded (respond.go).
//   - Connection loss is one state for the whole transport, found out by whoever
//     notices first (link.go). Everything else waits for it to end.
//
// # Locks
//
// consumer.receiving, then polls.mu, then streams.mu, then transaction.mu, then
// stream.mu. Nothing waits for the network while it holds one of them.
package kubemq
