package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

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
	dir     string
	db      *pebble.DB
	lock    *pebble.Lock
	write   *pebble.WriteOptions
	removed int64         // bytes since freeSpace was woken; used by commit only
	deleted chan struct{} // capacity 1: wakes freeSpace
	cancel  context.CancelFunc
	workers sync.WaitGroup
	loaded  bool // what is stored was read and found whole: close seals it
	fault   *fault
}

func openDiskStore(ctx context.Context, config Config) (*diskStore, error) {
	if err := prepareDir(config.DataDir); err != nil {
		return nil, err
	}
	lock, err := lockStore(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("broker: lock the store in %s: %w", config.DataDir, err)
	}
	fault := newFault()
	db, err := openEngine(enginePath(config.DataDir), lock, fault)
	if err != nil {
		return nil, fmt.Errorf("broker: open the store in %s: %w", config.DataDir, errors.Join(err, lock.Close()))
	}
	write := pebble.Sync
	if config.Sync == SyncOff {
		write = pebble.NoSync
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &diskStore{dir: config.DataDir, db: db, lock: lock, write: write, deleted: make(chan struct{}, 1), cancel: cancel, fault: fault}
	s.workers.Go(func() { s.freeSpace(ctx) })
	return s, nil
}

// openEngine opens Pebble's database on its directory.
func openEngine(path string, lock *pebble.Lock, fault *fault) (db *pebble.DB, err error) {
	if err := checkEngine(path); err != nil {
		return nil, err
	}
	cache := pebble.NewCache(diskCacheBytes)
	defer cache.Unref() // the database holds its own reference
	options := &pebble.Options{
		Cache:         cache,
		MemTableSize:  diskMemTableBytes,
		Logger:        pebbleLog{fault},
		EventListener: fault.listener(),
		Lock:          lock,
		// Fixed, because a store that was opened with a newer one can't be opened
		// by older versions of this program any more.
		FormatMajorVersion: pebble.FormatTableFormatV6,
	}
	type opened struct {
		db  *pebble.DB
		err error
	}
	result := make(chan opened, 1)
	if !fault.protect(func() {
		db, err := pebble.Open(path, options)
		result <- opened{db, err}
	}) {
		return nil, fault.err
	}
	got := <-result
	return got.db, describeOpen(got.err)
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

func (s *diskStore) commit(mutations []mutation) error {
	result := make(chan error, 1)
	if !s.fault.protect(func() { result <- s.apply(mutations) }) {
		return s.fault.err
	}
	if err := <-result; err != nil {
		return err
	}
	s.countRemoved(mutations)
	return nil
}

func (s *diskStore) apply(mutations []mutation) error {
	batch := s.db.NewBatch()
	for i := range mutations {
		if err := addMutation(batch, &mutations[i]); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(s.write), batch.Close())
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
		return nil, fmt.Errorf("broker: read message %d: %w", id, describe(err))
	}
	message := &pb.QueueMessage{}
	if err := errors.Join(message.Unmarshal(value), closer.Close()); err != nil {
		return nil, fmt.Errorf("broker: read message %d: %w", id, err)
	}
	return message, nil
}

func (s *diskStore) load(visit visitor) error {
	var counted seal
	err := s.scan(keyState, func(key, value []byte) error {
		counted.add(key, value)
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
	if err := breakSeal(s.dir, counted); err != nil {
		return err
	}
	s.loaded = true
	return nil
}

// count is what load would find now.
func (s *diskStore) count() (seal, error) {
	var counted seal
	err := s.scan(keyState, func(key, value []byte) error {
		counted.add(key, value)
		return nil
	})
	if err != nil {
		return seal{}, fmt.Errorf("broker: count the store: %w", err)
	}
	return counted, nil
}

// scan visits all keys of a kind in order.
func (s *diskStore) scan(kind byte, visit func(key, value []byte) error) error {
	iterator, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return describe(err)
	}
	for iterator.First(); iterator.Valid(); iterator.Next() {
		if err := visit(iterator.Key(), iterator.Value()); err != nil {
			return errors.Join(err, iterator.Close())
		}
	}
	return describe(iterator.Close()) // reports what ended the iteration early
}

// close leaves a faulty database alone: closing could wait for ever for what the
// failed write still holds.
func (s *diskStore) close() error {
	s.cancel()
	s.workers.Wait()
	select {
	case <-s.fault.raised:
		return nil // it was reported before
	default:
	}
	if !s.loaded {
		return errors.Join(s.shut(), s.lock.Close())
	}
	counted, err := s.count()
	if err := errors.Join(err, s.shut()); err != nil {
		return err
	}
	return errors.Join(writeSeal(s.dir, counted), s.lock.Close())
}

// shut closes the database.
func (s *diskStore) shut() error {
	result := make(chan error, 1)
	if !s.fault.protect(func() { result <- s.db.Close() }) {
		return s.fault.err
	}
	return <-result
}

func (s *diskStore) failed() <-chan struct{} { return s.fault.raised }

func (s *diskStore) failure() error {
	select {
	case <-s.fault.raised:
		return s.fault.err
	default:
		return nil
	}
}
