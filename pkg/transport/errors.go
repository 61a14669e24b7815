package transport

import "errors"

// Errors of every transport; test for them with errors.Is.
var (
	// ErrSettled: the delivery was settled before.
	ErrSettled = errors.New("transport: delivery is already settled")
	// ErrLost: the connection that held the delivery is gone; the broker hands
	// the message out again.
	ErrLost = errors.New("transport: delivery is lost, the broker redelivers it")
	// ErrUnconfirmed: the broker did not answer in time; the operation may or may
	// not have happened.
	ErrUnconfirmed = errors.New("transport: not confirmed by the broker")
	// ErrCopied: the copy of a settlement is confirmed, but the ack of the original is
	// not. The broker may deliver the original again.
	ErrCopied = errors.New("transport: the copy is stored, but the original may be delivered again")
	// ErrName: the broker can't have a queue of this name.
	ErrName = errors.New("transport: invalid queue name")
	// ErrDelay: longer than the broker's longest delay.
	ErrDelay = errors.New("transport: delay exceeds the broker's maximum")
	// ErrTooLarge: larger than the broker takes.
	ErrTooLarge = errors.New("transport: message exceeds the broker's limit")
	// ErrGaveUp: the attempts to connect are used up.
	ErrGaveUp = errors.New("transport: gave up")
	// ErrNoAnswer: a request was not answered in its time.
	ErrNoAnswer = errors.New("transport: no answer to the request")
	// ErrStopped: the transport or consumer is stopped.
	ErrStopped = errors.New("transport: stopped")
)
