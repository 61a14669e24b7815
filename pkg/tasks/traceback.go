package tasks

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// maxFrames bounds the frames of a traceback; of a deeper stack the innermost are
// kept.
const maxFrames = 64

// Traceback writes an error as Python writes a traceback, for
// AsyncResult.traceback: the frames where Go knows them, and a last line with
// class and message. Frames are known for a panic, and for errors with a method
// Callers() []uintptr or, as in github.com/pkg/errors, StackTrace().
func Traceback(err error) string {
	if err == nil {
		return ""
	}
	outcome, _ := OutcomeOf(err)
	switch outcome := outcome.(type) {
	case *ExhaustedError:
		if outcome.Cause != nil {
			return Traceback(outcome.Cause)
		}
	case *RetryError:
		if outcome.Cause != nil {
			return Traceback(outcome.Cause) +
				"\nDuring handling of the above exception, another exception occurred:\n\n" + ownTraceback(err)
		}
	}
	return ownTraceback(err)
}

func ownTraceback(err error) string {
	var text strings.Builder
	text.WriteString("Traceback (most recent call last):\n")
	frames := framesOf(callersOf(err))
	for i := len(frames) - 1; i >= 0; i-- {
		text.WriteString(`  File "` + frames[i].File + `", line ` + strconv.Itoa(frames[i].Line) + ", in " + frames[i].Function + "\n")
	}
	text.WriteString(exceptionLine(ExceptionOf(err)) + "\n")
	if isWrapped(err) {
		// As a note of Python's add_note: what was put around the exception on its
		// way here isn't part of it.
		text.WriteString(fmt.Sprint(err) + "\n")
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD")
}

// isWrapped tells whether the exception of err comes from an error further in,
// whose message is not the whole text.
func isWrapped(err error) bool {
	if _, own := err.(PythonException); own { //nolint:errorlint // only the outermost error is asked
		return false
	}
	var inner PythonException
	return errors.As(err, &inner)
}

// exceptionLine is the last line of a traceback: class and message.
func exceptionLine(exception protocol.Exception) string {
	line := exception.Type
	if exception.Module != "" && exception.Module != builtins {
		line = exception.Module + "." + line
	}
	if message := exceptionText(exception.Args); message != "" {
		line += ": " + message
	}
	return line
}

// exceptionText is Python's str of an exception with these args.
func exceptionText(args []any) string {
	switch len(args) {
	case 0:
		return ""
	case 1:
		if text, ok := args[0].(string); ok {
			return text
		}
		return protocol.Repr(args[0], protocol.ReprLimit)
	default:
		return protocol.ReprArgs(args)
	}
}

// callersOf returns the stack of the innermost error in the chain that has one:
// that is where the trouble began. It is empty if an error's own method panics.
func callersOf(err error) (callers []uintptr) {
	panicked := guard(func() {
		for ; err != nil; err = errors.Unwrap(err) {
			if found := ownCallers(err); len(found) > 0 {
				callers = found
			}
		}
	})
	if panicked != nil {
		return nil
	}
	return callers
}

func ownCallers(err error) []uintptr {
	if traced, ok := err.(interface{ Callers() []uintptr }); ok {
		return traced.Callers()
	}
	return stackTraceOf(err)
}

// stackTraceOf calls StackTrace of github.com/pkg/errors. Its type can't be named
// without importing it: a slice of a type whose kind is uintptr.
func stackTraceOf(err error) []uintptr {
	method := reflect.ValueOf(err).MethodByName("StackTrace")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	result := method.Type().Out(0)
	if result.Kind() != reflect.Slice || result.Elem().Kind() != reflect.Uintptr {
		return nil
	}
	stack := method.Call(nil)[0]
	callers := make([]uintptr, stack.Len())
	for i := range callers {
		callers[i] = uintptr(stack.Index(i).Uint())
	}
	return callers
}

// framesOf names the frames of a stack, innermost first, without the end of the
// stack that is the runtime's.
func framesOf(callers []uintptr) []runtime.Frame {
	if len(callers) == 0 {
		return nil
	}
	frames := make([]runtime.Frame, 0, len(callers))
	iterator := runtime.CallersFrames(callers)
	for more := true; more && len(frames) < maxFrames; {
		var frame runtime.Frame
		frame, more = iterator.Next()
		if frame.Function == "runtime.goexit" {
			break
		}
		frames = append(frames, frame)
	}
	return frames
}
