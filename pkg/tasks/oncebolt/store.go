// Package oncebolt keeps what tasks.Once knows in a file (bbolt), so that it
// survives a restart of the worker. The file is one process's: workers that share
// keys need a store that they all reach, such as package onceresult.
package oncebolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/lovage-project/lovage/pkg/tasks"
)

const (
	// lockPatience is how long a call waits for another process to close the file.
	lockPatience = time.Second
	// sampled is how many entries each claim looks at to find some whose time is
	// over: more than one, so that those never pile up.
	sampled = 3
)

// bucket holds an entry for each key.
var bucket = []byte("once")

// entry is a claim, or a result; neither counts from Until on.
type entry struct {
	Owner  string    `json:"owner,omitempty"`
	Done   bool      `json:"done,omitempty"`
	Result []byte    `json:"result,omitempty"`
	Until  time.Time `json:"until"`
}

// Store is a tasks.OnceStore in a file.
type Store struct {
	path string
	// mu guards what follows.
	mu     sync.Mutex
	db     *bbolt.DB // nil until the first call
	closed bool
	// failure is why the file could not be opened at failedAt: calls that wait for each
	// other don't wait for the file one after the other.
	failure  error
	failedAt time.Time
	// swept is the key at which the search for what is over goes on. It belongs to
	// the writing transaction, of which there is one at a time.
	swept []byte
}

var _ tasks.OnceStore = (*Store)(nil)

// Open returns a store in the file at path, which the first call opens or makes: the
// same program asks a running worker for its health, or looks at its queues, while
// the worker has the file. It is an error if the file's directory isn't there. Calls
// return bbolt's ErrTimeout as long as another process has the file.
func Open(path string) (*Store, error) {
	directory, err := os.Stat(filepath.Dir(path))
	if err == nil && !directory.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("oncebolt: open %s: %w", path, err)
	}
	return &Store{path: path}, nil
}

// file is the open file.
func (s *Store) file() (*bbolt.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, bbolterrors.ErrDatabaseNotOpen
	}
	if s.db != nil {
		return s.db, nil
	}
	if s.failure != nil && time.Since(s.failedAt) < lockPatience {
		return nil, s.failure
	}
	db, err := openFile(s.path)
	s.db, s.failure, s.failedAt = db, err, time.Now()
	return db, err
}

func openFile(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockPatience})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", path, err), db.Close())
	}
	return db, nil
}

// Close closes the file once running calls are over. Later calls are refused.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("oncebolt: close: %w", err)
	}
	return nil
}

// Claim is tasks.OnceStore's. The claim is on disk when it returns.
func (s *Store) Claim(ctx context.Context, key, owner string, lease time.Duration) (tasks.OnceState, error) {
	var state tasks.OnceState
	err := s.update(ctx, "claim", key, func(b *bbolt.Bucket, e entry, found bool) error {
		switch {
		case found && e.Done:
			state = tasks.OnceState{Done: true, Result: e.Result}
			return nil
		case found && e.Owner != owner:
			return nil
		}
		state.Claimed = true
		if err := s.sweep(b); err != nil {
			return err
		}
		return put(b, key, entry{Owner: owner, Until: time.Now().Add(lease)})
	})
	if err != nil {
		return tasks.OnceState{}, err
	}
	return state, nil
}

// Done is tasks.OnceStore's.
func (s *Store) Done(ctx context.Context, key string, result []byte, keep time.Duration) error {
	return s.update(ctx, "keep the result of", key, func(b *bbolt.Bucket, e entry, found bool) error {
		if found && e.Done {
			return nil
		}
		return put(b, key, entry{Done: true, Result: result, Until: time.Now().Add(keep)})
	})
}

// Release is tasks.OnceStore's.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	return s.update(ctx, "release", key, func(b *bbolt.Bucket, e entry, found bool) error {
		if !found || e.Done || e.Owner != owner {
			return nil
		}
		return b.Delete([]byte(key))
	})
}

// update changes the entry of a key, which it hands over if it still counts.
func (s *Store) update(ctx context.Context, operation, key string, change func(b *bbolt.Bucket, e entry, found bool) error) error {
	err := ctx.Err()
	if err == nil {
		err = s.updateFile(key, change)
	}
	if err != nil {
		return fmt.Errorf("oncebolt: %s %q: %w", operation, key, err)
	}
	return nil
}

func (s *Store) updateFile(key string, change func(b *bbolt.Bucket, e entry, found bool) error) error {
	db, err := s.file()
	if err != nil {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		e, found, err := read(b.Get([]byte(key)))
		if err != nil {
			return err
		}
		return change(b, e, found)
	})
}

// read decodes an entry; found is false if there is none that still counts.
func read(text []byte) (e entry, found bool, err error) {
	if text == nil {
		return entry{}, false, nil
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return entry{}, false, fmt.Errorf("an entry can't be read: %w", err)
	}
	return e, time.Now().Before(e.Until), nil
}

func put(b *bbolt.Bucket, key string, e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), text)
}

// sweep removes what is over among the next few entries.
func (s *Store) sweep(b *bbolt.Bucket) error {
	cursor := b.Cursor()
	key, text := cursor.Seek(s.swept)
	var over [][]byte
	for range sampled {
		if key == nil {
			break
		}
		if _, found, err := read(text); err == nil && !found {
			over = append(over, bytes.Clone(key))
		}
		key, text = cursor.Next()
	}
	s.swept = bytes.Clone(key) // nil: from the beginning again
	for _, key := range over {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
