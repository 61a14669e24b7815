package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// fault is the first error after which the engine can't be trusted any more. The
// store is then left alone: what failed in Pebble may hold its locks for ever, and
// its files are consistent as they are.
type fault struct {
	once   sync.Once
	err    error         // readable when raised is closed
	raised chan struct{} // closed with the first error
}

func newFault() *fault { return &fault{raised: make(chan struct{})} }

func (f *fault) raise(err error) {
	f.once.Do(func() {
		f.err = describe(err)
		close(f.raised)
	})
}

// protect runs a call of Pebble that the caller must not wait for without end: one
// that fails may never return. It reports whether the call ended.
func (f *fault) protect(call func()) bool {
	ended := make(chan struct{})
	go func() {
		// Pebble panics where it can't rotate its log.
		defer func() {
			if cause := recover(); cause != nil {
				f.raise(panicked(cause))
			}
		}()
		call()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-f.raised:
		return false
	}
}

// listener turns errors of Pebble's background work into faults. Pebble would try
// again at once and for ever, while its writers wait. Goexit ends the attempt and
// gives back the locks it holds.
func (f *fault) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			f.raise(err)
			runtime.Goexit()
		},
		// Pebble's default ends the program. Whoever reads gets the error anyway.
		DataCorruption: func(pebble.DataCorruptionInfo) {},
	}
}

// pebbleLog keeps Pebble quiet. Pebble expects Fatalf not to return.
type pebbleLog struct{ *fault }

func (pebbleLog) Infof(string, ...any)  {}
func (pebbleLog) Errorf(string, ...any) {}
func (l pebbleLog) Fatalf(format string, args ...any) {
	fatal := &engineError{text: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			fatal.cause = err
		}
	}
	l.raise(fatal)
	runtime.Goexit()
}

// engineError is what Pebble reports where it can't go on.
type engineError struct {
	text  string
	cause error
}

func (e *engineError) Error() string { return e.text }
func (e *engineError) Unwrap() error { return e.cause }

// describe names the file, which Pebble keeps beside the text of an error.
func describe(err error) error {
	if !pebble.IsCorruptionError(err) || errors.Is(err, ErrDamaged) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, info.Path, info.Details)
	}
	var detailed interface {
		error
		ErrorDetail() string
	}
	if errors.As(err, &detailed) {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, detailed.ErrorDetail(), err)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// describeOpen is describe for what keeps a database from being opened: it is
// damaged unless the machine refuses something.
func describeOpen(err error) error {
	err = describe(err)
	var refused syscall.Errno
	if err == nil || errors.Is(err, ErrDamaged) || errors.As(err, &refused) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// panicked makes an error of what was recovered.
func panicked(cause any) error {
	if err, ok := cause.(error); ok {
		return fmt.Errorf("storage engine: %w", err)
	}
	return fmt.Errorf("storage engine: %v", cause)
}
