package transport

import (
	"context"
	"time"
)

// Requester is a Transport that can ask and wait for the answer. Not every broker
// has it: find out by a type assertion.
type Requester interface {
	// Request hands body to who answers channel's requests and returns the answer.
	// Nothing is stored: where nobody is there, or nobody answers within timeout, it is
	// ErrNoAnswer. One that says that it did not do it is a *NotExecutedError. ctx may
	// end the wait sooner. timeout is more than 0; brokers round it up to their tick.
	Request(ctx context.Context, channel string, body []byte, timeout time.Duration) ([]byte, error)
}

// Answer answers one request: with response, or not at all where ok is false. ctx
// ends when the request's timeout is over, and with the cause ErrStopped when the
// Subscription is closed. It must not panic.
type Answer func(ctx context.Context, body []byte) (response []byte, ok bool)

// Responder is a Transport that can answer requests. Not every broker has it: find
// out by a type assertion.
type Responder interface {
	// Respond calls answer for each request to channel, each on a goroutine of its
	// own, up to limit (at least 1) at the same time; what comes beyond waits for its
	// turn as long as its own timeout lets it. It resubscribes after a lost
	// connection, for ever, and returns once the broker has taken the subscription, as
	// far as the broker tells.
	//
	// The end of ctx ends the taking alone, so that a worker that stops can finish what
	// it has taken. Close ends the contexts of the answers that run, too, and waits for
	// them.
	//
	// All Responders of a channel share its requests: each goes to one of them.
	// Subscribers that are not of this kind may get each one as well; the first answer
	// counts.
	Respond(ctx context.Context, channel string, limit int, answer Answer) (Subscription, error)
}

// NotExecutedError is the answer of who has got a request and did not do it.
type NotExecutedError struct {
	// Text is what it said, which comes from outside.
	Text string
}

// Error is the text.
func (e *NotExecutedError) Error() string { return "transport: request was not executed: " + e.Text }
