package broker

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

func TestDeletedMessagesFreeTheDisk(t *testing.T) {
	t.Parallel()
	const size, count = 1 << 20, diskFlushBytes >> 20
	dir := t.TempDir()
	store, err := openDiskStore(t.Context(), Config{DataDir: dir, Sync: SyncOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.close()) }()
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(body) // so that compression does not help
	removals := make([]mutation, count)
	for i := range removals {
		m := &storedMessage{id: uint64(i + 1), channel: "q", size: size, state: state{seq: 1}}
		require.NoError(t, store.commit([]mutation{{put: m, payload: &pb.QueueMessage{Body: body}}}))
		removals[i] = mutation{remove: &removal{id: m.id, size: size}}
	}
	// The rest is in logs, which Pebble keeps for reuse.
	require.Eventually(t, func() bool { return tableBytes(t, dir) > size*count/2 }, waitLimit, 20*time.Millisecond)
	require.NoError(t, store.commit(removals))
	require.Eventually(t, func() bool { return tableBytes(t, dir) < size*count/8 }, 2*waitLimit, 20*time.Millisecond)
}

// tableBytes is the size of the files in which Pebble keeps what it flushed.
func tableBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var used int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(entry.Name()) != ".sst" {
			return nil //nolint:nilerr // the store removes files meanwhile
		}
		if info, err := entry.Info(); err == nil {
			used += info.Size()
		}
		return nil
	})
	require.NoError(t, err)
	return used
}

// BenchmarkDiskStore measures the life of a message in the disk store, a durable
// send, a read and a durable ack, with so many clients at once: what the group
// commit of the journal makes of one sync.
func BenchmarkDiskStore(b *testing.B) {
	for _, clients := range []int{1, 16, 128} {
		b.Run(fmt.Sprint("clients-", clients), func(b *testing.B) {
			store, err := openDiskStore(b.Context(), Config{DataDir: b.TempDir()})
			require.NoError(b, err)
			var memory sync.Mutex
			j := newJournal(store, &memory)
			go j.run()
			payload := &pb.QueueMessage{MessageID: "id", ClientID: "bench", Body: make([]byte, 256)}
			ids := make(chan uint64)
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for id := range ids {
						if err := lifeOfAMessage(b, j, id, payload); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for id := uint64(1); b.Loop(); id++ {
				ids <- id
			}
			close(ids)
			group.Wait()
			j.close()
			require.NoError(b, store.close())
		})
	}
}

func lifeOfAMessage(b *testing.B, j *journal, id uint64, payload *pb.QueueMessage) error {
	b.Helper()
	put := &storedMessage{id: id, channel: "q", size: 256, state: state{seq: id, timestamp: 1}}
	if err := j.add([]mutation{{put: put, payload: payload}}, nil).wait(b.Context()); err != nil {
		return err
	}
	if _, err := j.store.payload(id); err != nil {
		return err
	}
	return j.add([]mutation{{remove: &removal{id: id, size: 256}}}, nil).wait(b.Context())
}
