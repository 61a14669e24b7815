package transport

import "time"

// Hooks tell the owner of a transport what happens inside it. Every field may
// be nil; callbacks must return quickly and may come from any goroutine.
type Hooks struct {
	// Lost is called once when the connection is lost, with the reason.
	Lost func(err error)
	// Retrying is called for each failed attempt to reconnect.
	Retrying func(err error, attempt int, wait time.Duration)
	// Restored is called once when the broker answers again, and at the start when
	// it answered to a later attempt than the first.
	Restored func()
	// GaveUp is called once when the attempts to reconnect are used up: the transport
	// won't come back by itself.
	GaveUp func(err error)
	// Note is called for what an operator should know, such as the strategy that
	// was chosen for a queue or a delay maximum that was learnt.
	Note func(text string)
}
