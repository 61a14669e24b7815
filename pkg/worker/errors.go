package worker

import (
	"errors"
	"fmt"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// Causes with which the contexts of the engine are cancelled; a handler asks
// for them with context.Cause.
var (
	// ErrShutdown means: the worker stops.
	ErrShutdown = errors.New("worker: shutdown")
	// ErrCancelled means: the worker stops now and cancels what runs (Celery's cold
	// shutdown).
	ErrCancelled = fmt.Errorf("%w: cancelled", ErrShutdown)
)

// ErrOptions means: New was given settings the worker can't have. The text names the
// setting, the value and what is allowed.
var ErrOptions = errors.New("worker: invalid options")

// ErrMaxAttempts means: the message was delivered as often as it may be, and went to
// the dead-letter queue, if there is one.
var ErrMaxAttempts = errors.New("worker: no attempts are left")

// errGoexit is Celery's WorkerLostError for a handler that ends its goroutine.
var errGoexit = tasks.NewPythonError("billiard.exceptions", "WorkerLostError", "the handler ended its goroutine (runtime.Goexit)")
