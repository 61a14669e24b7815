package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// diskCacheBytes and diskMemTableBytes are the engine's memory. Payloads are
	// usually read soon after they were written, from the mem table.
	diskCacheBytes    = 16 << 20
	diskMemTableBytes = 16 << 20
)

// diskStore keeps messages in Pebble (docs/decisions/0002-embedded-store.md).
type diskStore struct {
	db      *pebble.DB
	lock    *pebble.Lock
	write   *pebble.WriteOptions
	removed int64         // bytes since freeSpace was woken; used by commit only
	deleted chan struct{} // capacity 1: wakes freeSpace
	cancel  context.CancelFunc
	workers sync.WaitGroup
	broken  atomic.Bool // a write failed in a way that Pebble does not survive
}

func openDiskStore(ctx context.Context, config Config) (*diskStore, error) {
	if err := prepareDir(config.DataDir); err != nil {
		return nil, err
	}
	lock, err := lockStore(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("broker: lock the store in %s: %w", config.DataDir, err)
	}
	cache := pebble.NewCache(diskCacheBytes)
	defer cache.Unref() // the database holds its own reference
	db, err := pebble.Open(enginePath(config.DataDir), &pebble.Options{
		Cache:        cache,
		MemTableSize: diskMemTableBytes,
		Logger:       pebbleLog{},
		Lock:         lock,
		// Fixed, because a store that was opened with a newer one can't be opened
		// by older versions of this program any more.
		FormatMajorVersion: pebble.FormatTableFormatV6,
	})
	if err != nil {
		return nil, fmt.Errorf("broker: open the store in %s: %w", config.DataDir, errors.Join(err, lock.Close()))
	}
	write := pebble.Sync
	if config.Sync == SyncOff {
		write = pebble.NoSync
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &diskStore{db: db, lock: lock, write: write, deleted: make(chan struct{}, 1), cancel: cancel}
	s.workers.Go(func() { s.freeSpace(ctx) })
	return s, nil
}

// enginePath is where Pebble's own files are.
func enginePath(dir string) string { return filepath.Join(dir, "pebble") }

// lockStore creates the engine's directory and takes its lock, which another
// process may hold.
func lockStore(dir string) (*pebble.Lock, error) {
	if err := os.MkdirAll(enginePath(dir), 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	return pebble.LockDirectory(enginePath(dir), vfs.Default)
}

func (s *diskStore) commit(mutations []mutation) (err error) {
	defer s.recoverFatal(&err)
	batch := s.db.NewBatch()
	for i := range mutations {
		if err := addMutation(batch, &mutations[i]); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	if err := errors.Join(batch.Commit(s.write), batch.Close()); err != nil {
		return err
	}
	s.countRemoved(mutations)
	return nil
}

func addMutation(batch *pebble.Batch, m *mutation) error {
	switch {
	case m.put != nil:
		if err := batch.Set(messageKey(keyState, m.put.id), encodeState(m.put), nil); err != nil {
			return err
		}
		if m.payload == nil {
			return nil
		}
		return addPayload(batch, m.put.id, m.payload)
	case m.create != nil:
		return batch.Set(encodeChannelKey(*m.create), nil, nil)
	case m.drop != nil:
		return batch.Delete(encodeChannelKey(*m.drop), nil)
	default:
		// The size tells Pebble how much space a compaction would free.
		return errors.Join(
			batch.Delete(messageKey(keyState, m.remove.id), nil),
			batch.DeleteSized(messageKey(keyPayload, m.remove.id), uint32(m.remove.size), nil))
	}
}

// addPayload encodes a payload in its place in the batch: a copy less for each
// message.
func addPayload(batch *pebble.Batch, id uint64, payload *pb.QueueMessage) error {
	key := messageKey(keyPayload, id)
	record := batch.SetDeferred(len(key), payload.Size())
	copy(record.Key, key)
	if _, err := payload.MarshalTo(record.Value); err != nil {
		return fmt.Errorf("encode message %d: %w", id, err)
	}
	return record.Finish()
}

func (s *diskStore) payload(id uint64) (*pb.QueueMessage, error) {
	value, closer, err := s.db.Get(messageKey(keyPayload, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, errNotStored
	}
	if err != nil {
		return nil, fmt.Errorf("broker: read message %d: %w", id, err)
	}
	message := &pb.QueueMessage{}
	if err := errors.Join(message.Unmarshal(value), closer.Close()); err != nil {
		return nil, fmt.Errorf("broker: read message %d: %w", id, err)
	}
	return message, nil
}

func (s *diskStore) load(visit visitor) error {
	err := s.scan(keyState, func(key, value []byte) error {
		id, err := decodeMessageKey(key)
		if err != nil {
			return err
		}
		stored, err := decodeState(id, value)
		if err == nil {
			visit.message(stored)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("broker: load the store: %w", err)
	}
	err = s.scan(keyChannel, func(key, _ []byte) error {
		channel, err := decodeChannelKey(key)
		if err == nil {
			visit.channel(channel)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("broker: load the store: %w", err)
	}
	return nil
}

// scan visits all keys of a kind in order.
func (s *diskStore) scan(kind byte, visit func(key, value []byte) error) error {
	iterator, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return err
	}
	for iterator.First(); iterator.Valid(); iterator.Next() {
		if err := visit(iterator.Key(), iterator.Value()); err != nil {
			return errors.Join(err, iterator.Close())
		}
	}
	return iterator.Close() // reports what ended the iteration early
}

// close does nothing for a broken database: closing could wait for ever for what
// the failed write still holds. Its files are consistent as they are.
func (s *diskStore) close() error {
	s.cancel()
	if s.broken.Load() {
		return nil
	}
	s.workers.Wait()
	return errors.Join(s.db.Close(), s.lock.Close())
}

// recoverFatal turns an error that Pebble regards as fatal into an ordinary one.
func (s *diskStore) recoverFatal(err *error) {
	switch fatal := recover().(type) {
	case nil:
	case fatalError:
		s.broken.Store(true)
		*err = fatal
	default:
		panic(fatal)
	}
}

// fatalError is what Pebble reports where it can't go on.
type fatalError string

func (e fatalError) Error() string { return string(e) }

// pebbleLog keeps Pebble quiet. Pebble expects Fatalf not to return. In a commit
// the panic becomes the commit's error; in Pebble's own goroutines, where only a
// broken disk leads to it, it ends the program, which loses nothing.
type pebbleLog struct{}

func (pebbleLog) Infof(string, ...any)  {}
func (pebbleLog) Errorf(string, ...any) {}
func (pebbleLog) Fatalf(format string, args ...any) {
	panic(fatalError(fmt.Sprintf(format, args...)))
}
