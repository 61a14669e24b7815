package binding

import (
	"unicode/utf8"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// Error says that the arguments of a message don't fit the handler. It is
// Python's TypeError for the caller.
type Error struct {
	// Function is the name Python would use: the last part of the task's name.
	Function string
	// Argument leads to the value that doesn't fit, such as "items[2].price". It
	// is empty where the call as a whole doesn't fit, as with a missing argument.
	Argument string
	// Text is the message as Python words it, such as
	// "add() missing 1 required positional argument: 'y'".
	Text string
	// Err is what a type's own UnmarshalText returned, if that is the reason.
	Err error
}

// Error is the text with the package in front.
func (e *Error) Error() string { return "tasks: " + e.Text }

// Unwrap returns the cause, if any.
func (e *Error) Unwrap() error { return e.Err }

// PythonException is TypeError with the text as its only argument.
func (e *Error) PythonException() protocol.Exception {
	return protocol.Exception{Type: "TypeError", Module: "builtins", Args: []any{e.Text}}
}

// cut shortens a text from a message before it goes into an error.
func cut(text string) string {
	const longest = 100
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
