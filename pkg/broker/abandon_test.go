package broker

import (
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// limited is a message with a dead letter queue.
func limited(body string, attempts int32) *pb.QueueMessage {
	m := testMessage("q", body)
	m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: attempts, MaxReceiveQueue: "dead"}
	return m
}

// returned waits until n messages are ready again, and takes them.
func (c *client) returned(queue string, n int) []*pb.QueueMessage {
	c.t.Helper()
	c.waitFor("messages that come back", func() bool { return len(c.peek(queue)) == n })
	return c.consumer().get(queue, int32(n)).Messages
}

func counts(messages []*pb.QueueMessage) []int32 {
	found := make([]int32, len(messages))
	for i, m := range messages {
		found[i] = m.Attributes.ReceiveCount
	}
	return found
}

func TestCrashesAreCountedIfWanted(t *testing.T) {
	for name, test := range map[string]struct {
		config  Config
		leave   func(c *consumer, got *pb.QueuesDownstreamResponse)
		counts  []int32
		ordered []string
	}{
		"off": {
			leave:   func(c *consumer, _ *pb.QueuesDownstreamResponse) { c.cancel() },
			counts:  []int32{1, 1, 1, 1},
			ordered: []string{"1", "2", "3", "4"},
		},
		"cancel": {
			config:  Config{CountCrashes: true},
			leave:   func(c *consumer, _ *pb.QueuesDownstreamResponse) { c.cancel() },
			counts:  []int32{1, 2, 2, 2},
			ordered: []string{"4", "1", "2", "3"},
		},
		"closed transaction": {
			config: Config{CountCrashes: true},
			leave: func(c *consumer, got *pb.QueuesDownstreamResponse) {
				c.settle(typeCloseByClient, got.TransactionId)
				_, closed := c.barrier(got.TransactionId)
				require.True(c.t, closed)
				c.cancel()
			},
			counts:  []int32{1, 1, 1, 2},
			ordered: []string{"1", "2", "4", "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStoreWith(t, test.config, func(c *client) {
				t := c.t
				c.sendBodies("q", "1", "2", "3", "4")
				consumer := c.consumer()
				first := consumer.get("q", 2)
				consumer.get("q", 1)
				test.leave(consumer, first)
				got := c.returned("q", 4)
				require.Equal(t, test.ordered, bodies(got))
				require.Equal(t, test.counts, counts(got))
			})
		})
	}
}

// eachStoreWith is eachStore with a configuration.
func eachStoreWith(t *testing.T, config Config, test func(c *client)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(startBroker(t, config)) })
	config.DataDir = t.TempDir()
	t.Run("disk", func(t *testing.T) { test(startBroker(t, config)) })
}

func TestAConnectionThatBreaksIsACrash(t *testing.T) {
	c := startBroker(t, Config{CountCrashes: true})
	c.sendBodies("q", "1")
	worker := connect(t, c.broker)
	worker.consumer().get("q", 1)
	require.NoError(t, worker.conn.Close())
	require.Equal(t, []int32{2}, counts(c.returned("q", 1)))
}

func TestAHalfClosedStreamIsNotACrash(t *testing.T) {
	inBubble(t, Config{CountCrashes: true}, func(qs *testQueues) {
		t := qs.t
		for _, goodbye := range []bool{true, false} {
			qs.send(testMessage("q", "x"))
			_, deliveries := qs.take("q", 1, 0)
			seq := int64(deliveries[0].seq)
			held := &transaction{open: map[int64]*delivery{seq: deliveries[0]}, order: []int64{seq}}
			d := &downstream{queues: qs.queues, goodbye: goodbye, transactions: map[string]*transaction{"t": held}}
			d.giveBack()
			_, deliveries = qs.take("q", 1, waitLimit)
			require.Equal(t, !goodbye, deliveries[0].count == 1)
			require.NoError(t, qs.ack(deliveries).wait(t.Context()))
		}
	})
}

func TestATaskThatKillsItsWorkersIsDeadLettered(t *testing.T) {
	eachStoreWith(t, Config{CountCrashes: true}, func(c *client) {
		t := c.t
		c.send(limited("poison", 3))
		for attempt := range 3 {
			worker := c.consumer()
			got := worker.getWait("q", 1, waitLimit)
			require.Equal(t, []int32{int32(attempt + 1)}, counts(got.Messages))
			worker.cancel()
		}
		dead := c.returned("dead", 1)
		require.Equal(t, []string{"poison"}, bodies(dead))
		require.Equal(t, "q", dead[0].Attributes.ReRoutedFromQueue)
		require.Zero(t, c.waiting("q"))
	})
}

func TestAStopOfTheBrokerIsNoCrash(t *testing.T) {
	config := Config{CountCrashes: true, DataDir: t.TempDir(), Listen: "127.0.0.1:0"}
	for range 3 {
		b, err := New(config)
		require.NoError(t, err)
		require.NoError(t, b.Start(t.Context()))
		c := connect(t, b)
		if c.waiting("q") == 0 {
			c.sendBodies("q", "1")
		}
		require.Equal(t, []int32{1}, counts(c.consumer().get("q", 1).Messages))
		require.NoError(t, b.Stop())
	}
}
