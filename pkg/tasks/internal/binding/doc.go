// Package binding puts the arguments of a task message into Go values by
// Python's rules: positions and keywords are bound to the parameters of a
// signature, then each value is converted to the type of its parameter. What
// doesn't fit fails with the TypeError that Python would raise.
//
// A signature is compiled once, at registration; binding a call walks the
// compiled plan.
package binding
