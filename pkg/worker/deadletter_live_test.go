package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// stubborn fails at each attempt with another error, and wants to be tried again.
func stubborn(ctx context.Context, _ tasks.Arguments) (any, error) {
	request, _ := tasks.RequestFrom(ctx)
	return nil, tasks.Reject(fmt.Sprint("no luck at attempt ", request.Attempt), true)
}

// TestDeadLetterTellsItsStory is T-40: what the producer sent is untouched, byte for
// byte, and beside it stands all that an operator asks. The limit is the worker's, or
// the one that a Python producer stamped.
func TestDeadLetterTellsItsStory(t *testing.T) {
	t.Parallel()
	for name, config := range liveBrokers() {
		for _, stamped := range []bool{false, true} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " stamped ", stamped, " late ", late), func(t *testing.T) {
					t.Parallel()
					runStory(t, config, stamped, late)
				})
			}
		}
	}
}

func runStory(t *testing.T, config broker.Config, stamped, late bool) {
	t.Helper()
	l := startLive(t, config)
	registry := tasks.NewRegistry()
	tasks.HandleArguments(registry, "stubborn", stubborn, tasks.AcksLate(late))
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@story", 2, []string{"shop/orders"}
	policy := &pb.QueueMessagePolicy{}
	if stamped {
		policy.MaxReceiveCount, policy.MaxReceiveQueue = 3, "dead"
	} else {
		options.MaxAttempts, options.DeadLetterQueue = 3, "dead"
	}
	id := uuid.NewString()
	sent := encodeWire(t, protocol.Message{Task: "stubborn", ID: id, Queue: "shop/orders"})
	require.NoError(t, l.client.Send(t.Context(), &pb.QueueMessage{
		Channel: "shop.orders", Body: sent.Body, Metadata: string(sent.Headers), Policy: policy,
		Tags: map[string]string{"priority": "7", "theirs": "kept"},
	}))
	told := &history{}
	w, err := New(options, registry, l.transport(t), l.backend, told)
	require.NoError(t, err)
	startedAt(t, w)
	require.Eventually(t, func() bool { return strings.HasPrefix(last(told.all()[id]), "dead-letter ") }, livePatience, 20*time.Millisecond)
	require.NoError(t, w.Stop(t.Context()))

	messages, err := l.client.Peek(t.Context(), "dead", 1, time.Second)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, sent.Body, messages[0].Body)
	require.Equal(t, string(sent.Headers), messages[0].Metadata)
	require.Equal(t, "7", messages[0].Tags["priority"])
	require.Equal(t, "kept", messages[0].Tags["theirs"])
	letter := kubemq.LetterOf(messages[0])
	require.WithinDuration(t, time.Now(), letter.Time, livePatience)
	letter.Time = time.Time{}
	require.Contains(t, letter.Traceback, "no luck at attempt 3")
	letter.Traceback = ""
	require.Equal(t, kubemq.Letter{
		DeadLetter: transport.DeadLetter{
			Queue: "dead", Reason: "max-attempts", Task: "stubborn", ID: id, Worker: "celery@story",
			FirstError: "tasks: rejected and requeued: no luck at attempt 1",
			Detail:     "delivered 3 times, the limit is 3: tasks: rejected and requeued: no luck at attempt 3",
		},
		From: "shop/orders", Attempts: 3,
	}, letter)
	meta, err := l.backend.Fetch(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, protocol.StateFailure, meta.Status)
}

func last(events []string) string {
	if len(events) == 0 {
		return ""
	}
	return events[len(events)-1]
}

// TestUndecodableBytesAreKeptApart: they are no task, so they don't go to the
// dead-letter queue, whatever limit they came with.
func TestUndecodableBytesAreKeptApart(t *testing.T) {
	t.Parallel()
	l := startLive(t, broker.Config{})
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@apart", 1, []string{"orders"}
	options.MaxAttempts, options.DeadLetterQueue = 1, "dead"
	w, err := New(options, tasks.NewRegistry(), l.transport(t), l.backend)
	require.NoError(t, err)
	startedAt(t, w)
	require.NoError(t, l.client.Send(t.Context(), &pb.QueueMessage{
		Channel: "orders", Body: []byte("\x00\xff{"), Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "dead"},
	}))
	require.Eventually(t, func() bool { return l.depths(t)["orders.unprocessable"] == 1 }, livePatience, 20*time.Millisecond)
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, map[string]int64{"orders.unprocessable": 1}, l.depths(t))
	messages, err := l.client.Peek(t.Context(), "orders.unprocessable", 1, time.Second)
	require.NoError(t, err)
	require.Equal(t, "\x00\xff{", string(messages[0].Body))
	require.Equal(t, "envelope", kubemq.LetterOf(messages[0]).Reason)
	require.Equal(t, "celery@apart", kubemq.LetterOf(messages[0]).Worker)
}

// TestAutoAckForReal: every message is run once, what is rejected comes back, what has
// to wait does so, and a stop in the middle gives back what it had not started.
func TestAutoAckForReal(t *testing.T) {
	t.Parallel()
	for name, config := range liveBrokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runAutoAck(t, config)
		})
	}
}

func runAutoAck(t *testing.T, config broker.Config) {
	t.Helper()
	const count = 40
	l := startLive(t, config)
	told := &history{}
	var running, most atomic.Int64
	newWorker := func() *Worker {
		registry := tasks.NewRegistry()
		tasks.HandleArguments(registry, "t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			raise(&most, running.Add(1))
			defer running.Add(-1)
			if request, _ := tasks.RequestFrom(ctx); request.Attempt == 1 {
				return nil, tasks.Reject("once more", true)
			}
			return int64(1), nil
		}, tasks.AcksLate())
		options := DefaultOptions()
		options.Hostname, options.Concurrency, options.Queues, options.AutoAck = "celery@auto", 3, []string{"auto"}, true
		w, err := New(options, registry, l.transport(t), l.backend, told)
		require.NoError(t, err)
		startedAt(t, w)
		return w
	}
	first := newWorker()
	publisher := l.transport(t)
	ids := make([]string, count)
	for i := range ids {
		ids[i] = uuid.NewString()
		message := protocol.Message{Task: "t", ID: ids[i], Queue: "auto"}
		if i%4 == 0 {
			message.ETA = time.Now().Add(1500 * time.Millisecond)
		}
		l.send(t, publisher, message)
	}
	require.NoError(t, first.Stop(t.Context())) // in the middle of it
	second := newWorker()
	require.Eventually(t, func() bool {
		return len(told.all()) == count
	}, livePatience, 20*time.Millisecond, "some message is lost")
	require.NoError(t, second.Stop(t.Context()))
	for _, id := range ids {
		require.Equal(t, []string{"task-succeeded"}, told.all()[id])
	}
	require.LessOrEqual(t, most.Load(), int64(3))
	require.NotContains(t, l.depths(t), "auto")
}
