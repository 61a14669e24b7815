package tasks

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// PanicError is a panic of a handler, a middleware or a hook. It is always a
// failure: the value is not unwrapped, so a panic with Retry's error is no retry.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is where, in Go's form: function, then file and line, innermost first.
	Stack string

	callers []uintptr
}

// Error tells the value.
func (e *PanicError) Error() string { return "tasks: panic: " + fmt.Sprint(e.Value) }

// Callers returns the program counters of the stack, innermost first.
func (e *PanicError) Callers() []uintptr { return e.callers }

// PythonException is go.panic.PanicError(text, Go type of the value).
func (e *PanicError) PythonException() protocol.Exception {
	return protocol.Exception{
		Type:   "PanicError",
		Module: goModule + "panic",
		Args:   []any{fmt.Sprint(e.Value), fmt.Sprintf("%T", e.Value)},
	}
}

// guard calls f and returns its panic as a *PanicError, or nil.
func guard(f func()) (panicked error) {
	defer func() {
		if value := recover(); value != nil {
			panicked = newPanicError(value)
		}
	}()
	f()
	return nil
}

// newPanicError is called by the function that recovers.
func newPanicError(value any) *PanicError {
	var pcs [maxFrames + 16]uintptr // a few more, for the frames that are cut off
	callers := panicCallers(pcs[:runtime.Callers(0, pcs[:])])
	return &PanicError{Value: value, Stack: stackText(callers), callers: callers}
}

// panicCallers cuts a stack to what the user wrote: from the function that
// panicked up to our own call of it. Above are the runtime's frames of the panic,
// below the worker's.
func panicCallers(pcs []uintptr) []uintptr {
	first, last := 0, len(pcs)
	for i, pc := range pcs {
		name := functionAt(pc)
		if first == 0 && name == "runtime.gopanic" {
			first = i + 1
		}
		if first > 0 && strings.HasSuffix(name, "pkg/tasks.guard") {
			last = i
			break
		}
	}
	for first < last && strings.HasPrefix(functionAt(pcs[first]), "runtime.") {
		first++
	}
	return append([]uintptr(nil), pcs[first:last]...)
}

func functionAt(pc uintptr) string {
	if f := runtime.FuncForPC(pc - 1); f != nil {
		return f.Name()
	}
	return ""
}

func stackText(callers []uintptr) string {
	var text strings.Builder
	for _, frame := range framesOf(callers) {
		text.WriteString(frame.Function + "\n\t" + frame.File + ":" + strconv.Itoa(frame.Line) + "\n")
	}
	return text.String()
}
