package rayserve

import "fmt"

// MalformedError says that a body is not what the adapter's producers send: it can
// never be run. The adapter moves what is not JSON to its unprocessable queue.
type MalformedError struct {
	// Reason is the sentence for people, such as "kwargs are a list, not an object".
	Reason string
	// ID and Name are the task's, as far as they could be read.
	ID, Name string
	// Err is the decoder's error, if there is one: a *protocol.DecodeError, which wraps
	// a *protocol.LimitError where the body is larger than the limits allow.
	Err error
}

// Error gives the reason, and the decoder's error.
func (e *MalformedError) Error() string {
	if e.Err == nil {
		return "rayserve: malformed message: " + e.Reason
	}
	return fmt.Sprintf("rayserve: malformed message: %s: %v", e.Reason, e.Err)
}

// Unwrap returns the decoder's error.
func (e *MalformedError) Unwrap() error { return e.Err }
