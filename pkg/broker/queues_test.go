package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// testQueues is an index without network, for tests with a fake clock.
type testQueues struct {
	*queues
	t *testing.T
}

// inBubble runs a test with a fake clock and queues in memory.
func inBubble(t *testing.T, config Config, test func(qs *testQueues)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		qs, err := openQueues(config.withDefaults(), newMemoryStore())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		workers.Go(func() { qs.keepTime(ctx) })
		go qs.journal.run()
		defer func() {
			cancel()
			workers.Wait()
			qs.journal.close()
		}()
		test(&testQueues{queues: qs, t: t})
	})
}

func (qs *testQueues) send(messages ...*pb.QueueMessage) {
	qs.t.Helper()
	results, err := qs.queues.send(qs.t.Context(), messages)
	require.NoError(qs.t, err)
	for _, r := range results {
		require.False(qs.t, r.IsError, r.Error)
	}
}

// pass lets the fake clock go on, and everything happen that is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// takeLater is take from "q" in a goroutine; the channel gets the bodies.
func (qs *testQueues) takeLater(n int) <-chan []string {
	taken := make(chan []string, 1)
	go func() {
		c, err := qs.lineUp(qs.t.Context(), want{queue: "q", max: n, wait: time.Hour})
		if err != nil {
			taken <- []string{err.Error()}
			return
		}
		c.await(qs.t.Context())
		messages, _, err := qs.load(c.messages)
		if err != nil {
			taken <- []string{err.Error()}
			return
		}
		taken <- bodies(messages)
	}()
	synctest.Wait()
	return taken
}

// take takes up to n messages and returns their bodies.
func (qs *testQueues) take(queue string, n int, wait time.Duration) ([]string, []*delivery) {
	qs.t.Helper()
	c, err := qs.lineUp(qs.t.Context(), want{queue: queue, max: n, wait: wait})
	require.NoError(qs.t, err)
	c.await(qs.t.Context())
	messages, deliveries, err := qs.load(c.messages)
	require.NoError(qs.t, err)
	return bodies(messages), deliveries
}

// known lists the queues in memory.
func (qs *testQueues) known() []string {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return slices.Sorted(maps.Keys(qs.byName))
}

// stored counts the payloads in the store.
func (qs *testQueues) stored() int {
	store, ok := qs.store.(*memoryStore)
	require.True(qs.t, ok)
	store.mu.RLock()
	defer store.mu.RUnlock()
	return len(store.byID)
}

func delayed(queue, body string, delay, expiration int32) *pb.QueueMessage {
	m := testMessage(queue, body)
	m.Policy = &pb.QueueMessagePolicy{DelaySeconds: delay, ExpirationSeconds: expiration}
	return m
}

func TestDelayedMessagesArriveOnTimeInTheOrderOfTheirDueTimes(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		start := time.Now()
		qs.send(delayed("q", "3s", 3, 0), delayed("q", "1s", 1, 0), delayed("q", "also 1s", 1, 0), delayed("q", "2s", 2, 0))
		got, _ := qs.take("q", 10, 0)
		require.Empty(t, got)
		for _, want := range []struct {
			after  time.Duration
			bodies []string
		}{{time.Second, []string{"1s", "also 1s"}}, {2 * time.Second, []string{"2s"}}, {3 * time.Second, []string{"3s"}}} {
			got, deliveries := qs.take("q", 10, time.Hour)
			require.Equal(t, want.bodies, got)
			require.Equal(t, want.after, time.Since(start))
			require.Equal(t, time.Now().UnixNano(), deliveries[0].timestamp, "it entered the queue now")
		}
	})
}

func TestEqualMessageIDsDoNotReplaceEachOther(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		for range 3 {
			m := delayed("q", "x", 5, 0)
			m.MessageID = "same"
			qs.send(m)
		}
		pass(5 * time.Second)
		got, _ := qs.take("q", 10, 0)
		require.Len(t, got, 3)
	})
}

func TestAShortDelayIsNotHeldUpByManyLongOnes(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		for range 3000 {
			qs.send(delayed("other", "long", 40, 0))
		}
		start := time.Now()
		qs.send(delayed("q", "short", 1, 0))
		got, _ := qs.take("q", 1, time.Hour)
		require.Equal(t, []string{"short"}, got)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestManyMessagesMayFallDueAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		const n = 3*maxSweep + 1
		for i := range n {
			qs.send(delayed("q", strconv.Itoa(i), 1, 0))
		}
		pass(time.Second)
		got, _ := qs.take("q", n, 0)
		require.Len(t, got, n)
		for i, body := range got {
			require.Equal(t, strconv.Itoa(i), body)
		}
	})
}

func TestExpirationRunsFromTheEndOfTheDelay(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(delayed("q", "x", 5, 2))
		pass(6900 * time.Millisecond)
		_, deliveries := qs.take("q", 1, 0)
		require.Len(t, deliveries, 1)
		qs.release(deliveries)
		pass(200 * time.Millisecond)
		got, _ := qs.take("q", 1, 0)
		require.Empty(t, got)
	})
}

func TestExpiredMessagesDoNotCountTowardsMax(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		for range 5 {
			qs.send(delayed("q", "short", 0, 1))
		}
		qs.send(testMessage("q", "1"), delayed("q", "short", 0, 1), testMessage("q", "2"))
		// The first sweep after the expiration comes at 1 s: look just before.
		pass(time.Second - time.Nanosecond)
		c, err := qs.lineUp(t.Context(), want{queue: "q", max: 1})
		require.NoError(t, err)
		require.Len(t, c.messages, 1)
		qs.release(inFlight(c.messages))
		pass(time.Nanosecond)
		c, err = qs.lineUp(t.Context(), want{queue: "q", max: 2})
		require.NoError(t, err)
		loaded, _, err := qs.load(c.messages)
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, bodies(loaded))
	})
}

func TestExpiredMessagesFreeMemoryAndStoreWithoutAConsumer(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		const n = 2*maxSweep + 7
		for i := range n {
			qs.send(delayed(fmt.Sprint("celery-result-", i), "result", 0, 60))
		}
		require.Len(t, qs.known(), n)
		pass(62 * time.Second)
		require.Zero(t, qs.stored())
		pass(idleTime + time.Second)
		require.Empty(t, qs.known(), "idle queues are forgotten")
	})
}

func TestAMessageInFlightDoesNotExpire(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(delayed("q", "x", 0, 1))
		_, deliveries := qs.take("q", 1, 0)
		pass(time.Minute)
		require.NoError(t, qs.ack(deliveries).wait(t.Context()))
		info := qs.infos("q")[0]
		require.Zero(t, info.Waiting)
	})
}

func TestANackedMessageThatExpiredIsDropped(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(delayed("q", "x", 0, 1))
		_, deliveries := qs.take("q", 1, 0)
		pass(2 * time.Second)
		c, err := qs.nack(deliveries)
		require.NoError(t, err)
		require.NoError(t, c.wait(t.Context()))
		got, _ := qs.take("q", 1, 0)
		require.Empty(t, got)
	})
}

func TestIdleQueuesAreForgottenAndUsedOnesAreNot(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("full", "x"), testMessage("held", "x"), delayed("delayed", "x", 3600, 0), testMessage("done", "x"))
		_, held := qs.take("held", 1, 0)
		_, done := qs.take("done", 1, 0)
		require.NoError(t, qs.ack(done).wait(t.Context()))
		_, err := qs.addChannel(channelKey{kind: kindQueues, name: "created"})
		require.NoError(t, err)
		waiting, err := qs.lineUp(t.Context(), want{queue: "waited", max: 1, wait: time.Hour})
		require.NoError(t, err)
		require.Equal(t, []string{"created", "delayed", "done", "full", "held", "waited"}, qs.known())

		pass(idleTime + time.Second)
		require.Equal(t, []string{"created", "delayed", "full", "held", "waited"}, qs.known())
		waiting.leave(t.Context())
		qs.release(held)
		_, again := qs.take("held", 1, 0)
		require.NoError(t, qs.ack(again).wait(t.Context()))
		pass(idleTime + time.Second)
		require.Equal(t, []string{"created", "delayed", "full"}, qs.known())
	})
}

func TestWaitingClaimsAreServedInTheirOrder(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		var waiting [3]<-chan []string
		for i := range waiting {
			waiting[i] = qs.takeLater(1)
		}
		for i, taken := range waiting {
			qs.send(testMessage("q", strconv.Itoa(i)))
			require.Equal(t, []string{strconv.Itoa(i)}, <-taken)
		}
	})
}

func TestABatchServesAllWhoWait(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		var waiting [5]<-chan []string
		for i := range waiting {
			waiting[i] = qs.takeLater(2)
		}
		x := testMessage("q", "x")
		qs.send(x, x, x, x, x, x, x, x, x, x)
		for _, taken := range waiting {
			require.Len(t, <-taken, 2)
		}
	})
}

func TestAClaimThatGivesUpPassesItsWakeUpOn(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		gone, cancel := context.WithCancel(t.Context())
		first, err := qs.lineUp(gone, want{queue: "q", max: 1, wait: time.Hour})
		require.NoError(t, err)
		second := qs.takeLater(1)
		qs.send(testMessage("q", "x")) // wakes the first, which is not looking
		cancel()
		first.await(gone)
		require.Empty(t, first.messages)
		require.Equal(t, []string{"x"}, <-second)
	})
}

func TestLingerFillsABatch(t *testing.T) {
	inBubble(t, Config{Linger: 2500 * time.Microsecond}, func(qs *testQueues) {
		t := qs.t
		batch := qs.takeLater(3)
		for i := range 5 {
			qs.send(testMessage("q", strconv.Itoa(i)))
			pass(time.Millisecond)
		}
		require.Equal(t, []string{"0", "1", "2"}, <-batch)
	})
}

func TestAWaitEndsOnTime(t *testing.T) {
	inBubble(t, Config{}, func(qs *testQueues) {
		t := qs.t
		start := time.Now()
		got, _ := qs.take("q", 1, 1500*time.Millisecond)
		require.Empty(t, got)
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		require.Zero(t, qs.infos("q")[0].Subscribers)
	})
}

func TestQueuesAndWaitingRequestsAreBounded(t *testing.T) {
	inBubble(t, Config{MaxQueues: 2, MaxWaiting: 1}, func(qs *testQueues) {
		t := qs.t
		qs.send(testMessage("a", "x"))
		waiting, err := qs.lineUp(t.Context(), want{queue: "b", max: 1, wait: time.Hour})
		require.NoError(t, err)

		results, err := qs.queues.send(t.Context(), []*pb.QueueMessage{testMessage("c", "x"), testMessage("a", "y")})
		require.NoError(t, err)
		require.Equal(t, "broker: too many queues (limit 2)", results[0].Error)
		require.False(t, results[1].IsError)

		_, err = qs.lineUp(t.Context(), want{queue: "b", max: 1, wait: time.Hour})
		require.EqualError(t, err, "broker: too many waiting requests (limit 1)")

		_, deliveries := qs.take("a", 1, 0)
		_, err = qs.requeue(deliveries, "c")
		require.EqualError(t, err, "re-queue message with seq 1 failed, broker: too many queues (limit 2)")

		waiting.leave(t.Context())
		qs.send(testMessage("c", "x")) // the idle queue made room
	})
}

func TestADeadLetterIsNeverRefused(t *testing.T) {
	inBubble(t, Config{MaxQueues: 1}, func(qs *testQueues) {
		t := qs.t
		m := testMessage("a", "x")
		m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "dead"}
		qs.send(m)
		_, deliveries := qs.take("a", 1, 0)
		c, err := qs.nack(deliveries)
		require.NoError(t, err)
		require.NoError(t, c.wait(t.Context()))
		got, _ := qs.take("dead", 1, 0)
		require.Equal(t, []string{"x"}, got)
	})
}

func TestSettlingAMessageOfADeletedQueueHasNoEffect(t *testing.T) {
	settlements := map[string]func(qs *testQueues, d []*delivery){
		"ack":     func(qs *testQueues, d []*delivery) { require.NoError(qs.t, qs.ack(d).wait(qs.t.Context())) },
		"release": func(qs *testQueues, d []*delivery) { qs.release(d) },
		"nack": func(qs *testQueues, d []*delivery) {
			c, err := qs.nack(d)
			require.NoError(qs.t, err)
			require.NoError(qs.t, c.wait(qs.t.Context()))
		},
	}
	for name, settle := range settlements {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(qs *testQueues) {
				t := qs.t
				qs.send(testMessage("q", "held"), testMessage("q", "ready"), delayed("q", "delayed", 5, 0))
				_, held := qs.take("q", 1, 0)
				key := channelKey{kind: kindQueues, name: "q"}
				require.NoError(t, qs.deleteChannel(key).wait(t.Context()))
				require.Empty(t, qs.known())
				settle(qs, held)
				pass(10 * time.Second)
				got, _ := qs.take("q", 10, 0)
				require.Empty(t, got)
				require.Zero(t, qs.stored())
			})
		})
	}
}
