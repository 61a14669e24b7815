// Package worker is the engine. A message walks one line, once, in one
// direction, as one value (job) that gains fields:
//
//	fetch   reserve a slot, then ask for a message
//	admit   decode; known? expired? due?
//	run     ack early if that is the policy, call the handler
//	settle  publish what follows, store the result, tell, ack
//
// Each step is in the file of its name. Order is the promise: a retry or a dead
// letter is published and confirmed before its original is acked, and a late
// task is acked only after its result is stored. A crash in between gives a
// duplicate, never a loss.
package worker
