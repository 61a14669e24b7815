// Package onceresult keeps what tasks.Once knows in a result backend, which all
// workers reach.
//
// Each who wants a key stores a record with its name, and the first record has the
// key until it expires. As a record can't be renewed, a claim has two places and its
// owner writes them in turn, so that one of them is always there.
package onceresult

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// ErrUnbound is returned by a store of Unbound that has no backend yet.
var ErrUnbound = errors.New("onceresult: the store has no backend: hand it to command.WithOnceResults, or call Bind")

// ErrNotRenewed is returned by Claim when somebody else was in the way; an owner that
// has the key has it for the rest of its lease, and the next try may succeed.
var ErrNotRenewed = errors.New("onceresult: the claim could not be renewed")

// Store is a tasks.OnceStore in a result backend. Records have the ids
// once-<key>-a, -b and -result, and expire by the backend: leases are rounded up to
// what it can, and a result is kept no longer than it keeps one.
//
// A claim reads six records and writes one.
type Store struct{ backend Backend }

var _ tasks.OnceStore = (*Store)(nil)

// New returns a store in a backend, which belongs to the caller and must be started.
func New(backend Backend) *Store { return &Store{backend: backend} }

// Unbound returns a store that gets its backend later, by Bind: tasks are registered
// before a worker has one. Until then all its methods return ErrUnbound.
func Unbound() *Store { return New(unbound{}) }

// Bind gives the store its backend, before the first call of its other methods.
func (s *Store) Bind(backend Backend) { s.backend = backend }

// Backend is what the store needs of a result backend: one that can tell who was
// first. Package results/kubemq has one.
type Backend interface {
	results.Backend
	// StoreFirst stores a SUCCESS unless the task has one that has not expired, and
	// returns the one that it has then.
	StoreFirst(ctx context.Context, meta protocol.Meta, options results.StoreOptions) (protocol.Meta, error)
}

// claim is a record of who has a key. Turn grows with each renewal.
type claim struct {
	owner string
	turn  int64
}

// situation is what is stored for a key.
type situation struct {
	places [2]claim // the zero value is no claim
	done   bool
	result []byte
}

// Claim is tasks.OnceStore's. Beside the backend's errors it returns ErrNotRenewed.
func (s *Store) Claim(ctx context.Context, key, owner string, lease time.Duration) (tasks.OnceState, error) {
	if err := ctx.Err(); err != nil {
		return tasks.OnceState{}, err
	}
	before, err := s.look(ctx, key)
	if err != nil {
		return tasks.OnceState{}, err
	}
	if before.done || before.hasOther(owner) {
		return before.refuse(key, before.has(owner))
	}
	at, mine := before.next(owner)
	first, err := s.write(ctx, key, at, mine, before.places[at] != claim{}, lease)
	if err != nil {
		return tasks.OnceState{}, err
	}
	// Everything again: who looked before may have written meanwhile, and who ran may
	// have finished.
	after, err := s.look(ctx, key)
	if err != nil {
		return tasks.OnceState{}, err
	}
	after.places[at] = first // who reads while others read may be shown a later one
	if after.done || after.hasOther(owner) || first != mine {
		return after.refuse(key, before.has(owner))
	}
	return tasks.OnceState{Claimed: true}, nil
}

// Done is tasks.OnceStore's.
func (s *Store) Done(ctx context.Context, key string, result []byte, keep time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.store(ctx, resultID(key), base64.StdEncoding.EncodeToString(result), keep)
	return err
}

// Release is tasks.OnceStore's. A claim whose lease ends while it is released may
// have another owner already, which loses it then: release early.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := s.look(ctx, key)
	if err != nil {
		return err
	}
	for at, c := range now.places {
		if c.owner == owner {
			if err := s.backend.Forget(ctx, placeID(key, at)); err != nil {
				return fmt.Errorf("onceresult: release %q: %w", key, err)
			}
		}
	}
	return nil
}

// has tells whether owner has the key, hasOther whether somebody else is in a place.
func (n situation) has(owner string) bool {
	return n.places[0].owner == owner || n.places[1].owner == owner
}

func (n situation) hasOther(owner string) bool {
	for _, c := range n.places {
		if c.owner != "" && c.owner != owner {
			return true
		}
	}
	return false
}

// next is where owner writes: not over its newest record, so that there always is
// one, and a new claim in the first place, where all new claims meet.
func (n situation) next(owner string) (at int, mine claim) {
	newest := claim{}
	for i, c := range n.places {
		if c.owner == owner && c.turn > newest.turn {
			newest, at = c, 1-i
		}
	}
	return at, claim{owner, newest.turn + 1}
}

// refuse is what one is told who doesn't get the key. One who had a place before may
// be the owner, and is until its lease is over.
func (n situation) refuse(key string, had bool) (tasks.OnceState, error) {
	if had && !n.done {
		return tasks.OnceState{}, fmt.Errorf("%w: key %q", ErrNotRenewed, key)
	}
	return tasks.OnceState{Done: n.done, Result: n.result}, nil
}

// look reads everything that is stored for a key, at the same time.
func (s *Store) look(ctx context.Context, key string) (situation, error) {
	var now situation
	reading, ctx := errgroup.WithContext(ctx)
	for at := range now.places {
		reading.Go(func() (err error) {
			now.places[at], err = s.readClaim(ctx, placeID(key, at))
			return err
		})
	}
	reading.Go(func() (err error) {
		now.result, now.done, err = s.readResult(ctx, resultID(key))
		return err
	})
	return now, reading.Wait()
}

func (s *Store) readClaim(ctx context.Context, id string) (claim, error) {
	meta, err := s.fetch(ctx, id)
	if err != nil || meta.Status == "" {
		return claim{}, err
	}
	return claimOf(meta)
}

func claimOf(meta protocol.Meta) (claim, error) {
	fields, _ := meta.Result.([]any)
	if len(fields) == 2 {
		owner, isText := fields[0].(string)
		turn, isNumber := fields[1].(int64)
		if isText && isNumber && owner != "" {
			return claim{owner, turn}, nil
		}
	}
	return claim{}, unreadable(meta.TaskID)
}

func (s *Store) readResult(ctx context.Context, id string) (result []byte, done bool, err error) {
	meta, err := s.fetch(ctx, id)
	if err != nil || meta.Status == "" {
		return nil, false, err
	}
	text, isText := meta.Result.(string)
	result, err = base64.StdEncoding.DecodeString(text)
	if err != nil || !isText {
		return nil, false, unreadable(id)
	}
	return result, true, nil
}

// fetch reads a record; the zero value is none.
func (s *Store) fetch(ctx context.Context, id string) (protocol.Meta, error) {
	meta, err := s.backend.Fetch(ctx, id)
	if errors.Is(err, results.ErrNotFound) {
		return protocol.Meta{}, nil
	}
	if err != nil {
		return protocol.Meta{}, fmt.Errorf("onceresult: read %q: %w", id, err)
	}
	return meta, nil
}

// write stores a claim and returns the one that was first in its place. An older
// record of the owner is removed before.
func (s *Store) write(ctx context.Context, key string, at int, c claim, older bool, lease time.Duration) (claim, error) {
	id := placeID(key, at)
	if older {
		if err := s.backend.Forget(ctx, id); err != nil {
			return claim{}, fmt.Errorf("onceresult: renew %q: %w", key, err)
		}
	}
	first, err := s.store(ctx, id, []any{c.owner, c.turn}, lease)
	if err != nil {
		return claim{}, err
	}
	return claimOf(first)
}

func (s *Store) store(ctx context.Context, id string, result any, expires time.Duration) (protocol.Meta, error) {
	meta := protocol.Meta{TaskID: id, Status: protocol.StateSuccess, Result: result, DateDone: time.Now().UTC()}
	first, err := s.backend.StoreFirst(ctx, meta, results.StoreOptions{Expires: expires})
	if err != nil {
		return protocol.Meta{}, fmt.Errorf("onceresult: store %q: %w", id, err)
	}
	return first, nil
}

func placeID(key string, at int) string { return "once-" + key + "-" + string(rune('a'+at)) }
func resultID(key string) string        { return "once-" + key + "-result" }

func unreadable(id string) error {
	return fmt.Errorf("onceresult: read %q: the record is none of this package's", id)
}
