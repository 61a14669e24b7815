package tasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// builtins is the Python module of Python's own exceptions.
const builtins = "builtins"

// goModule starts the module names of errors that are Go's. A Python client can't
// import them and makes up a class of the type's name.
const goModule = "go."

// PythonException is implemented by errors that name their Python class.
type PythonException interface {
	error
	PythonException() protocol.Exception
}

// PythonError is an error with a Python class; NewPythonError and WithPythonClass
// make it.
type PythonError struct {
	// Exception is what the Python caller gets.
	Exception protocol.Exception
	// Err is the error that was given the class, nil if there was none.
	Err error
}

// NewPythonError returns an error that is the exception module.class(*args) for a
// Python caller, such as NewPythonError("builtins", "ValueError", "too small").
// The class is imported from the module if the caller has loaded it, so it must be
// an exception class; else the caller makes up a class of that name.
func NewPythonError(module, class string, args ...any) error {
	return &PythonError{Exception: protocol.Exception{Type: class, Module: module, Args: args}}
}

// WithPythonClass returns err as the exception module.class(err.Error()) for a
// Python caller. It is nil if err is.
func WithPythonClass(err error, module, class string) error {
	if err == nil {
		return nil
	}
	return &PythonError{
		Exception: protocol.Exception{Type: class, Module: module, Args: []any{err.Error()}},
		Err:       err,
	}
}

// Error is the text of the error that was given the class, else class and
// arguments as Python shows them.
func (e *PythonError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return exceptionLine(encodable(e.Exception))
}

// Unwrap returns the error that was given the class.
func (e *PythonError) Unwrap() error { return e.Err }

// PythonException returns the exception.
func (e *PythonError) PythonException() protocol.Exception { return e.Exception }

// ExceptionOf tells the Python exception that is stored for an error:
//
//   - what the first error in the chain with a PythonException method says;
//   - Celery's and Python's classes for errors of package protocol, and
//     builtins.TimeoutError for a deadline that passed;
//   - the first named error type in the chain, such as go.io/fs.PathError;
//   - Exception for errors.New, fmt.Errorf and errors.Join.
//
// The message is the text of err. No Python client fails to read the result.
func ExceptionOf(err error) (exception protocol.Exception) {
	if err == nil {
		return protocol.Exception{}
	}
	// The methods of an error are the user's: one that panics, as with a nil
	// pointer inside, must not cost more than the class. fmt survives such errors.
	defer func() {
		if recover() != nil {
			exception = encodable(protocol.Exception{Type: "Exception", Module: builtins, Args: []any{fmt.Sprint(err)}})
		}
	}()
	var named PythonException
	if errors.As(err, &named) {
		return encodable(named.PythonException())
	}
	exception.Type, exception.Module = classOf(err)
	exception.Args = []any{fmt.Sprint(err)}
	return encodable(exception)
}

// classOf names the class of an error that doesn't name one itself.
func classOf(err error) (class, module string) {
	var typeError *protocol.TypeError
	var encodeError *protocol.EncodeError
	switch {
	case errors.As(err, &typeError):
		return "TypeError", builtins
	case errors.As(err, &encodeError):
		return "EncodeError", "kombu.exceptions"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "TimeoutError", builtins
	case errors.Is(err, context.Canceled):
		return "Canceled", goModule + "context"
	}
	for ; err != nil; err = errors.Unwrap(err) {
		t := reflect.TypeOf(err)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Name() == "" || isPlumbing(t.PkgPath()) {
			continue
		}
		// The arguments of a generic type don't belong to the name.
		class, _, _ := strings.Cut(t.Name(), "[")
		return class, goModule + t.PkgPath()
	}
	return "Exception", builtins
}

// isPlumbing tells whether the error types of a package only carry a text or wrap
// another error.
func isPlumbing(pkg string) bool {
	switch pkg {
	case "errors", "fmt", "github.com/pkg/errors", "golang.org/x/xerrors":
		return true
	default:
		return false
	}
}

// encodable makes sure that any serializer can write the exception and any Python
// client read it. Celery's client refuses an exception whose class is no exception
// class, so what is none in builtins is not claimed to be there.
func encodable(exception protocol.Exception) protocol.Exception {
	if exception.Type == "" {
		exception.Type, exception.Module = "Exception", builtins
	}
	if exception.Module == builtins && !isBuiltinException(exception.Type) {
		exception.Module = goModule + builtins
	}
	args := make([]any, len(exception.Args))
	for i, arg := range exception.Args {
		args[i] = encodableArg(arg)
	}
	exception.Args = args
	return exception
}

// encodableArg is the wire value of arg; Celery stores the repr of what has none.
func encodableArg(arg any) any {
	value, err := protocol.ToValue(arg)
	if err != nil {
		return protocol.Repr(arg, protocol.ReprLimit)
	}
	if text, ok := value.(string); ok {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return value
}

// isBuiltinException goes by the ending of the name: all exceptions in Python's
// builtins have one of these, and nothing else there has.
func isBuiltinException(name string) bool {
	endings := []string{"Error", "Exception", "Warning", "Exit", "Interrupt", "Iteration", "Group"}
	return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}
