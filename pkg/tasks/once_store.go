package tasks

import (
	"context"
	"errors"
	"time"
)

// OnceStore keeps for each key of Once who runs it, or what came of it. Keys are 36
// ASCII characters. Package oncetest has the tests that every store passes. Its
// methods are called from many goroutines, and return an error when ctx has ended
// before they began.
type OnceStore interface {
	// Claim gives the key to owner for the time of lease, at least a second, unless
	// there is a result or another owner has it. An owner that has it already gets it
	// for lease from now on. An error leaves it open whether owner has the key; one
	// that had it keeps it until its lease is over.
	Claim(ctx context.Context, key, owner string, lease time.Duration) (OnceState, error)
	// Done keeps result for a while, whoever has the key, and ends every claim to it.
	// Where there is a result already that one stays.
	Done(ctx context.Context, key string, result []byte, keep time.Duration) error
	// Release ends the claim of owner; if it has none nothing happens.
	Release(ctx context.Context, key, owner string) error
}

// OnceState is the answer to a Claim.
type OnceState struct {
	// Claimed tells that the owner who asked has the key.
	Claimed bool
	// Done tells that there is a result; nobody has the key then.
	Done bool
	// Result is what Done was given.
	Result []byte
}

// ErrOnceRunning is the cause of the retries of a call whose key another call has.
var ErrOnceRunning = errors.New("tasks: once: another call with this key is running")

// ErrOnceLost is the cause with which a handler's context ends when its claim could
// not be renewed in time: another call with its key may be running.
var ErrOnceLost = errors.New("tasks: once: the claim was lost, another call with this key may be running")
