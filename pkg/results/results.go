// Package results is where the outcome of a task is stored so that the caller
// can read it (Celery's result backend). A backend is a subpackage.
package results

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// ErrNotFound means: nothing is stored for the task. For Celery that is PENDING.
var ErrNotFound = errors.New("results: no result is stored")

// StoreOptions qualify one write.
type StoreOptions struct {
	// Expires is how long the result stays readable (result_expires); 0 = the
	// backend's longest.
	Expires time.Duration
	// First says that no earlier state of this task can exist, so that a backend
	// which has to remove one needn't look for it.
	First bool
}

// Backend stores and reads results. The state of a task never goes backwards
// for a reader, and a stored SUCCESS is never replaced by another state.
type Backend interface {
	// Store writes meta and returns nil once it is confirmed.
	Store(ctx context.Context, meta protocol.Meta, options StoreOptions) error
	// Fetch reads the newest state of a task; ErrNotFound when there is none.
	Fetch(ctx context.Context, taskID string) (protocol.Meta, error)
	// Forget removes what is stored for a task.
	Forget(ctx context.Context, taskID string) error
	// Start returns once the backend can be used.
	Start(ctx context.Context) error
	// Stop releases the connection. It is idempotent.
	Stop() error
}

// Glancer is a Backend for which it is dear to find the newest state, and cheap to find
// one that will be it in a moment.
type Glancer interface {
	// Glance is Fetch for who looks again and again: a state that is being stored may be
	// missed this time.
	Glance(ctx context.Context, taskID string) (protocol.Meta, error)
}
