package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

const here = "go.github.com/lovage-project/lovage/pkg/tasks_test"

type outOfStockError struct{ SKU string }

func (e outOfStockError) Error() string { return e.SKU + " is out of stock" }

// PythonException names a class that the Python side has.
func (e outOfStockError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "OutOfStock", Module: "shop.errors", Args: []any{e.SKU, 3, time.Second, big.NewInt(5)}}
}

type conflict struct{ what string }

func (e *conflict) Error() string { return "conflict: " + e.what }

type generic[T any] struct{ value T }

func (e generic[T]) Error() string { return fmt.Sprint(e.value) }

type panicking struct{}

func (panicking) Error() string                       { return "fine" }
func (panicking) PythonException() protocol.Exception { panic("no class") }

func TestExceptionOf(t *testing.T) {
	cases := map[string]struct {
		err  error
		want protocol.Exception
	}{
		"errors.New":  {errors.New("boom é"), protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"boom é"}}},
		"fmt.Errorf":  {fmt.Errorf("a: %w", errors.New("b")), protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"a: b"}}},
		"errors.Join": {errors.Join(&conflict{"x"}, errors.New("b")), protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"conflict: x\nb"}}},
		"named":       {&conflict{"x"}, protocol.Exception{Type: "conflict", Module: here, Args: []any{"conflict: x"}}},
		"wrapped":     {fmt.Errorf("a: %w", &conflict{"x"}), protocol.Exception{Type: "conflict", Module: here, Args: []any{"a: conflict: x"}}},
		"generic":     {generic[int]{5}, protocol.Exception{Type: "generic", Module: here, Args: []any{"5"}}},
		"of a package": {&fs.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist},
			protocol.Exception{Type: "PathError", Module: "go.io/fs", Args: []any{"open /x: file does not exist"}}},
		"class of its own": {fmt.Errorf("a: %w", outOfStockError{"book"}),
			protocol.Exception{Type: "OutOfStock", Module: "shop.errors", Args: []any{"book", int64(3), 1.0, int64(5)}}},
		"class in a join": {errors.Join(errors.New("b"), outOfStockError{"book"}),
			protocol.Exception{Type: "OutOfStock", Module: "shop.errors", Args: []any{"book", int64(3), 1.0, int64(5)}}},
		"deadline": {fmt.Errorf("a: %w", context.DeadlineExceeded),
			protocol.Exception{Type: "TimeoutError", Module: "builtins", Args: []any{"a: context deadline exceeded"}}},
		"deadline within": {&url.Error{Op: "Get", URL: "http://x", Err: os.ErrDeadlineExceeded},
			protocol.Exception{Type: "TimeoutError", Module: "builtins", Args: []any{`Get "http://x": i/o timeout`}}},
		"type error":    {fmt.Errorf("a: %w", &protocol.TypeError{Message: "b"}), protocol.Exception{Type: "TypeError", Module: "builtins", Args: []any{"a: b"}}},
		"encode error":  {&protocol.EncodeError{Err: errors.New("b")}, protocol.Exception{Type: "EncodeError", Module: "kombu.exceptions", Args: []any{"protocol: can't encode: b"}}},
		"cancelled":     {context.Canceled, protocol.Exception{Type: "Canceled", Module: "go.context", Args: []any{"context canceled"}}},
		"new python":    {tasks.NewPythonError("builtins", "ValueError", "too small", nil), protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{"too small", nil}}},
		"no python arg": {tasks.NewPythonError("builtins", "ValueError"), protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{}}},
		"given class":   {tasks.WithPythonClass(&conflict{"x"}, "shop.errors", "Conflict"), protocol.Exception{Type: "Conflict", Module: "shop.errors", Args: []any{"conflict: x"}}},
		"no type":       {tasks.NewPythonError("shop", "", "x"), protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"x"}}},
		"not encodable": {tasks.NewPythonError("builtins", "ValueError", make(chan int)), protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{"<chan int>"}}},
		"not UTF-8":     {errors.New("a\xffb"), protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"a\uFFFDb"}}},
		"panicking":     {panicking{}, protocol.Exception{Type: "Exception", Module: "builtins", Args: []any{"fine"}}},
		"nil pointer":   {(*conflict)(nil), protocol.Exception{Type: "conflict", Module: here, Args: []any{"<nil>"}}},
		"nil":           {nil, protocol.Exception{}},
		// Celery's client raises SecurityError for these.
		"builtin function": {tasks.NewPythonError("builtins", "eval", "x"), protocol.Exception{Type: "eval", Module: "go.builtins", Args: []any{"x"}}},
		"builtin class":    {tasks.NewPythonError("builtins", "dict"), protocol.Exception{Type: "dict", Module: "go.builtins", Args: []any{}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, tasks.ExceptionOf(c.err)) })
	}
}

func TestPythonError(t *testing.T) {
	err := tasks.NewPythonError("shop.errors", "OutOfStock", "book", 3)
	require.EqualError(t, err, "shop.errors.OutOfStock: ('book', 3)")
	require.EqualError(t, tasks.NewPythonError("builtins", "ValueError", "x"), "ValueError: x")

	cause := &conflict{"x"}
	err = tasks.WithPythonClass(cause, "shop.errors", "Conflict")
	require.EqualError(t, err, "conflict: x")
	require.ErrorIs(t, err, cause)
	require.NoError(t, tasks.WithPythonClass(nil, "shop.errors", "Conflict"))
}

// The names of all classes in the builtins of Python 3.11 that are exceptions,
// and of what looks most like one.
func TestBuiltinExceptions(t *testing.T) {
	exceptions := `ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError
		BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError
		ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError Exception
		ExceptionGroup FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError
		ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError
		MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError
		PendingDeprecationWarning PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning
		RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit
		TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
		UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError`
	for _, name := range strings.Fields(exceptions) {
		require.Equal(t, "builtins", tasks.ExceptionOf(tasks.NewPythonError("builtins", name)).Module, name)
	}
	for _, name := range strings.Fields("Ellipsis NotImplemented __import__ exec type object exit quit") {
		require.Equal(t, "go.builtins", tasks.ExceptionOf(tasks.NewPythonError("builtins", name)).Module, name)
	}
}

// traced has a stack as errors of github.com/pkg/errors have.
type traced struct{ stack []frame }

type frame uintptr

func (traced) Error() string         { return "traced" }
func (e traced) StackTrace() []frame { return e.stack }

// caller has a stack as errors of github.com/go-errors/errors have.
type caller struct{ stack []uintptr }

func (caller) Error() string        { return "caller" }
func (e caller) Callers() []uintptr { return e.stack }

func stackHere() []uintptr {
	pcs := make([]uintptr, 10)
	return pcs[:runtime.Callers(1, pcs)]
}

func TestTracebackShowsKnownFrames(t *testing.T) {
	callers := stackHere()
	frames := make([]frame, len(callers))
	for i, pc := range callers {
		frames[i] = frame(pc)
	}
	for _, err := range []error{traced{frames}, caller{callers}} {
		text := tasks.Traceback(fmt.Errorf("outer: %w", err))
		require.Regexp(t, `^Traceback \(most recent call last\):\n  File ".*testing\.go", line \d+, in testing\.tRunner
  File ".*exception_test\.go", line \d+, in .*TestTracebackShowsKnownFrames
  File ".*exception_test\.go", line \d+, in .*stackHere
go\.github\.com/lovage-project/lovage/pkg/tasks_test\.(traced|caller): outer: (traced|caller)
$`, text)
	}
}

func TestTraceback(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"nil":     {nil, ""},
		"plain":   {errors.New("boom"), "Traceback (most recent call last):\nException: boom\n"},
		"no text": {tasks.NewPythonError("billiard.exceptions", "SoftTimeLimitExceeded"), "Traceback (most recent call last):\nbilliard.exceptions.SoftTimeLimitExceeded\n"},
		"not a text": {tasks.NewPythonError("builtins", "ValueError", 5),
			"Traceback (most recent call last):\nValueError: 5\n"},
		"two args": {tasks.Reject("rej", false), "Traceback (most recent call last):\ncelery.exceptions.Reject: ('rej', False)\n"},
		// What was wrapped around an error with a class would be lost otherwise.
		"wrapped": {fmt.Errorf("order 5: %w", tasks.NewPythonError("builtins", "ValueError", "too small")),
			"Traceback (most recent call last):\nValueError: too small\norder 5: ValueError: too small\n"},
		"not UTF-8": {errors.New("a\xffb"), "Traceback (most recent call last):\nException: a\uFFFDb\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, tasks.Traceback(c.err)) })
	}
}

type wrongStackError struct{}

func (wrongStackError) Error() string      { return "wrong" }
func (wrongStackError) StackTrace() string { return "text" }
func (wrongStackError) Callers() []uintptr { panic("no stack") }

func TestTracebackSurvivesMethods(t *testing.T) {
	require.Equal(t, "Traceback (most recent call last):\n"+here+".wrongStackError: wrong\n", tasks.Traceback(wrongStackError{}))
}
