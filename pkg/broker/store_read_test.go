package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// eachOpenStore runs a test against an open store of every kind.
func eachOpenStore(t *testing.T, test func(s store)) {
	t.Helper()
	t.Run("memory", func(*testing.T) { test(newMemoryStore()) })
	t.Run("disk", func(t *testing.T) {
		s, err := openDiskStore(t.Context(), Config{DataDir: t.TempDir(), Sync: SyncOff})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.close()) }()
		test(s)
	})
}

func putOf(id uint64, body string) mutation {
	payload := &pb.QueueMessage{MessageID: "id", Body: []byte(body), Policy: &pb.QueueMessagePolicy{}}
	stored := &storedMessage{id: id, channel: "q", size: int32(payload.Size()), state: state{seq: id}}
	return mutation{put: stored, payload: payload}
}

func removalOf(id uint64) mutation { return mutation{remove: &removal{id: id, size: 1}} }

func TestManyPayloadsAreThoseOfTheirIDs(t *testing.T) {
	const count = 2000
	eachOpenStore(t, func(s store) {
		for id := uint64(1); id <= count; id++ {
			mutations := []mutation{putOf(id, fmt.Sprint("body ", id))}
			if id%7 == 0 {
				mutations = append(mutations, removalOf(id-1))
			}
			require.NoError(t, s.commit(mutations))
		}
		ascending := make([]uint64, 0, count+2)
		for id := uint64(0); id <= count+1; id++ {
			ascending = append(ascending, id) // the first and the last do not exist
		}
		shuffled := append([]uint64{5, 5}, ascending...)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, ids := range [][]uint64{nil, {6}, {7}, {7, 6, 5}, {1, 500, 1999}, ascending, shuffled} {
			found, err := s.payloads(ids)
			require.NoError(t, err)
			require.Len(t, found, len(ids))
			for i, id := range ids {
				if id == 0 || id > count || id%7 == 6 && id < count-count%7 {
					require.Nil(t, found[i], id)
					continue
				}
				require.NotNil(t, found[i], id)
				require.Equal(t, fmt.Sprint("body ", id), string(found[i].Body))
			}
		}
	})
}
