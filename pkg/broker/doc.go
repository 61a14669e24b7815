// Package broker is an embedded message broker that speaks KubeMQ's gRPC API:
// queues with both receive APIs, events, commands and queries, and the internal
// channel that creates, lists and deletes channels. Unmodified KubeMQ clients
// work with it; docs/protocol.md describes the contract.
//
// # Promises
//
// A send is answered only when it is durable (Config.Sync). After a crash every
// answered send is there, settled messages stay settled as far as a later answer
// on their stream proved it, messages in flight are ready again with an unchanged
// receive count, and delayed ones arrive on time.
//
// # Data path
//
//	send ─► journal ─► ready ─► transaction ─► journal
//	          │  ▲                  │
//	        store └── delays        └─ release: back to ready
//
// A send gets its place in the queue and joins the journal under one mutex, so the
// order on disk, the order in memory and the order of the answers are the same. The
// journal writes everything that came together with one sync (group commit) and
// then lets each commit take effect: only then is a message visible and its sender
// answered. A settlement leaves the transaction at once and is durable with its
// commit, which the next ActiveOffsets answer on that stream waits for.
//
// # Locks
//
// queues.mu guards the index in memory: queues, messages, waiters, heaps. What
// happens under it are a few map and heap steps; nothing under it touches the
// disk or the network. journal.mu is inside queues.mu. transaction state belongs
// to one stream and has its own mutex, taken before queues.mu.
//
// # Memory
//
// The index holds about a hundred bytes for each message, bodies stay in the
// store until they are delivered. A queue exists in memory while it has messages,
// waiters or an explicit creation, and for a minute after.
//
// # Quirks
//
// Config.Quirks makes the broker behave as badly as a server of 2023 did, for the
// tests of clients. What belongs to it is in the files quirk*.go. Everywhere else
// are only hooks, which do nothing without it: a member is nil and a flag is false.
package broker
