// Package rayserve holds the wire formats of KubeMQ's adapter for Ray Serve and
// nothing else: task, result, synchronous query and its response, progress
// (docs/protocol.md §24). It is made of pure functions and plain types: no I/O, no
// goroutine, no clock.
//
// All of them are JSON objects as Python's json module writes them, keys in the
// adapter's order. Numbers are exact, and NaN and the infinities are bare words, as
// in package protocol. Kombu's {"__type__": …} means nothing here: a time is written
// as ISO 8601, a decimal and a UUID as their text, and bytes are refused.
package rayserve
