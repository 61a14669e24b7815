package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

func TestMessagesOlderThanTheRetentionAreRemoved(t *testing.T) {
	inBubble(t, Config{Retention: time.Hour}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "old"), delayed("q", "expires later", 0, 7200), delayed("q", "expires before", 0, 60), delayed("late", "delayed", 7200, 0))
		pass(time.Minute + sweepInterval)
		require.Equal(t, 3, qs.stored())
		pass(29 * time.Minute)
		qs.send(testMessage("q", "young"))
		pass(30 * time.Minute)
		require.Equal(t, 1, qs.stored())
		got, _ := qs.take("q", 10, 0)
		require.Equal(t, []string{"young"}, got)
		require.EqualValues(t, 3, qs.countersOf("q").expired)
		pass(2 * time.Hour)
		got, _ = qs.take("late", 10, 0)
		require.Empty(t, got)
	})
}

// countersOf returns the counters of a queue.
func (qs *testQueues) countersOf(queue string) queueCounters {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byName[queue].counters
}

func TestTheEndOfADelayStartsTheRetentionAnew(t *testing.T) {
	inBubble(t, Config{Retention: time.Hour}, func(qs *testQueues) {
		t := qs.t
		qs.send(delayed("q", "x", 1800, 0))
		pass(31 * time.Minute)
		require.Equal(t, 1, qs.expiries.len(), "not also with its old end")
		pass(58 * time.Minute)
		require.Equal(t, 1, qs.stored())
		pass(2 * time.Minute)
		require.Zero(t, qs.stored())
	})
}

func TestNothingIsDeliveredBeyondTheRetention(t *testing.T) {
	inBubble(t, Config{Retention: time.Hour}, func(qs *testQueues) {
		t := qs.t
		for _, m := range []*pb.QueueMessage{testMessage("q", "x"), delayed("q", "x", 1800, 0)} {
			qs.send(m)
		}
		// Between two sweeps as well.
		qs.mu.Lock()
		qs.swept = time.Now().Add(time.Hour - time.Nanosecond).UnixNano()
		qs.mu.Unlock()
		pass(time.Hour - time.Nanosecond)
		_, deliveries := qs.take("q", 1, 0)
		require.Len(t, deliveries, 1)
		qs.release(deliveries)
		pass(time.Nanosecond)
		_, deliveries = qs.take("q", 1, 0)
		require.Len(t, deliveries, 1)
		require.NotZero(t, deliveries[0].timestamp)
		require.Equal(t, time.Now().Add(-30*time.Minute).UnixNano(), deliveries[0].timestamp, "the end of its delay")
	})
}

func TestRetentionLeavesMessagesInFlightAlone(t *testing.T) {
	inBubble(t, Config{Retention: time.Hour}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "acked"), testMessage("q", "nacked"), testMessage("q", "released"))
		_, held := qs.take("q", 3, 0)
		pass(2 * time.Hour)
		require.Equal(t, 3, qs.stored())
		require.NoError(t, qs.ack(held[:1]).wait(t.Context()))
		done, err := qs.nack(held[1:2])
		require.NoError(t, err)
		require.NoError(t, done.wait(t.Context()))
		qs.release(held[2:])
		pass(sweepInterval)
		require.Equal(t, 1, qs.stored())
		pass(30 * time.Minute)
		got, held := qs.take("q", 3, 0)
		require.Equal(t, []string{"nacked"}, got, "it entered its queue anew")
		qs.release(held)
		pass(31 * time.Minute)
		require.Zero(t, qs.stored())
	})
}

func TestWithoutRetentionMessagesStay(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("q", "x"))
		pass(48 * time.Hour)
		require.Zero(t, qs.expiries.len())
		got, _ := qs.take("q", 1, 0)
		require.Equal(t, []string{"x"}, got)
	})
}

func TestRetentionRemovesManyAndForgetsTheirQueues(t *testing.T) {
	inBubble(t, Config{Retention: time.Minute}, func(qs *testQueues) {
		t := qs.t
		const n = 2*maxSweep + 7
		for i := range n {
			qs.send(testMessage(fmt.Sprint("q", i), "x"), delayed(fmt.Sprint("d", i), "x", 3600, 0))
		}
		pass(time.Minute + sweepInterval)
		synctest.Wait()
		require.Zero(t, qs.stored())
		require.Zero(t, qs.expiries.len())
		require.Zero(t, qs.delays.len())
		pass(idleTime + sweepInterval)
		require.Empty(t, qs.known())
	})
}

func TestRetentionRemovesFromTheDisk(t *testing.T) {
	config := Config{DataDir: t.TempDir(), Retention: time.Hour, Listen: "127.0.0.1:0"}
	store, err := openDiskStore(t.Context(), config)
	require.NoError(t, err)
	for id, age := range map[uint64]time.Duration{1: 2 * time.Hour, 2: 10 * time.Minute} {
		require.NoError(t, store.commit([]mutation{{
			put:     &storedMessage{id: id, channel: "q", size: 9, state: state{seq: id, timestamp: time.Now().Add(-age).UnixNano()}},
			payload: &pb.QueueMessage{ClientID: "c", Body: []byte("x")},
		}}))
	}
	require.NoError(t, store.close())

	b, err := New(config)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	c := connect(t, b)
	c.waitFor("the old one to go", func() bool { return c.waiting("q") == 1 })
	require.NoError(t, b.Stop())

	store, err = openDiskStore(t.Context(), config)
	require.NoError(t, err)
	var left []uint64
	require.NoError(t, store.load(visitor{message: func(m storedMessage) { left = append(left, m.id) }, channel: func(channelKey) {}}))
	require.Equal(t, []uint64{2}, left)
	_, err = store.payload(1)
	require.ErrorIs(t, err, errNotStored)
	require.NoError(t, store.close())
}

func TestANegativeRetentionIsRefused(t *testing.T) {
	_, err := New(Config{Retention: -time.Second})
	require.EqualError(t, err, "broker: config: retention -1s is negative")
}
