package kubemq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// TestAckCountsWhenProven is T-K4: an ack returns only after the answer to a barrier that
// was sent behind it.
func TestAckCountsWhenProven(t *testing.T) {
	t.Parallel()
	barrier := make(chan func(*pb.QueuesDownstreamResponse), 1)
	hold := holding(message("a", 1))
	server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_ActiveOffsets {
			barrier <- answer
			return
		}
		hold(request, answer)
	}}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
	d := received(t, c, 1)[0]
	sent := make(chan struct{})
	d.(transport.SentNotifier).NotifySent(func() { close(sent) })
	acked := make(chan error, 1)
	go func() { acked <- d.Ack(t.Context()) }()
	answer := <-barrier
	<-sent
	acks := server.of(pb.QueuesDownstreamRequestType_AckRange)
	require.Len(t, acks, 1, "sent before the barrier")
	require.Equal(t, []int64{1}, acks[0].SequenceRange)
	require.Empty(t, acked, "not proven yet")
	answer(&pb.QueuesDownstreamResponse{IsError: true, Error: "cannot get active offsets with closed response "})
	require.NoError(t, <-acked)
}

// TestNobodyIsToldOfAnAckThatBlocksAGet: where a Get waits for open transactions, asking
// before the proof would only open another stream.
func TestNobodyIsToldOfAnAckThatBlocksAGet(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{StrategySingle, StrategyBatch} {
		server := &fakeServer{downstream: holding(message("a", 1))}
		d := received(t, opened(t, started(t, Config{Address: server.serve(t), Strategy: strategy}), "q"), 1)[0]
		told := false
		d.(transport.SentNotifier).NotifySent(func() { told = true })
		require.NoError(t, d.Ack(t.Context()))
		require.False(t, told, strategy)
	}
}

// TestSettlementsShareBarriers: what comes while a barrier is on its way goes with
// the next one, in one request.
func TestSettlementsShareBarriers(t *testing.T) {
	t.Parallel()
	const n = 50
	messages := make([]*pb.QueueMessage, n)
	for i := range messages {
		messages[i] = message(strings.Repeat("x", i+1), uint64(i+1))
	}
	barriers := make(chan func(*pb.QueuesDownstreamResponse), n)
	hold := holding(messages...)
	server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_ActiveOffsets {
			barriers <- answer
			return
		}
		hold(request, answer)
	}}
	tr := started(t, Config{Address: server.serve(t), Strategy: StrategyDirect})
	c := opened(t, tr, "q")
	deliveries := received(t, c, n)
	var acking sync.WaitGroup
	ack := func(d transport.Delivery) {
		acking.Go(func() {
			if err := d.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	ack(deliveries[0])
	first := <-barriers
	for _, d := range deliveries[1:] {
		ack(d)
	}
	s := c.(*consumer).strategy.(*direct).polls.streams.all[0]
	within(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue) == n-1
	}, "all others wait for the barrier on its way")
	first(&pb.QueuesDownstreamResponse{})
	(<-barriers)(&pb.QueuesDownstreamResponse{})
	acking.Wait()
	acks := server.of(pb.QueuesDownstreamRequestType_AckRange)
	require.Len(t, acks, 2)
	require.Len(t, acks[1].SequenceRange, n-1)
	require.Empty(t, barriers)
	require.Empty(t, s.expected, "nothing is remembered for ever")
}

func TestRefusedSettlementIsLost(t *testing.T) {
	t.Parallel()
	for text, ends := range map[string]bool{
		// The rest of the range is still held then: only the end of the stream gives
		// it back.
		"invalid ack sequence id 1":                true,
		"nack message with seq 1 failed, no space": true,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			hold := holding(message("a", 1))
			server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
				if request.RequestTypeData == pb.QueuesDownstreamRequestType_NAckRange {
					answer(&pb.QueuesDownstreamResponse{IsError: true, Error: text})
					return
				}
				hold(request, answer)
			}}
			c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
			d := received(t, c, 1)[0]
			s := d.(*delivery).held.stream
			err := d.Nack(t.Context())
			require.ErrorIs(t, err, transport.ErrLost)
			require.ErrorContains(t, err, text)
			require.Equal(t, ends, s.broken())
		})
	}
}

func TestSettleTakesNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	barrier := make(chan func(*pb.QueuesDownstreamResponse), 1)
	hold := holding(message("a", 1))
	server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_ActiveOffsets {
			barrier <- answer
			return
		}
		hold(request, answer)
	}}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyDirect}), "q")
	d := received(t, c, 1)[0]
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no time left")
	acked := make(chan error, 1)
	go func() { acked <- d.Ack(ctx) }()
	answer := <-barrier
	cancel(reason)
	err := <-acked
	require.ErrorIs(t, err, transport.ErrUnconfirmed)
	require.ErrorIs(t, err, reason)
	require.ErrorIs(t, d.Ack(t.Context()), transport.ErrSettled)
	answer(&pb.QueuesDownstreamResponse{})
}

// TestEmptyGetIsClosed: an empty transaction may go on collecting messages.
func TestEmptyGetIsClosed(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{StrategyDirect, StrategySingle, StrategyBatch} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			server := &fakeServer{downstream: holding()}
			c := opened(t, started(t, Config{Address: server.serve(t), Strategy: strategy}), "q")
			require.NoError(t, c.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second},
				func(transport.Delivery) { t.Error("a message") }))
			within(t, func() bool { return len(server.of(pb.QueuesDownstreamRequestType_CloseByClient)) == 1 }, "closed")
			gets := server.of(pb.QueuesDownstreamRequestType_Get)
			require.Equal(t, "tx-"+gets[0].RequestID, server.of(pb.QueuesDownstreamRequestType_CloseByClient)[0].RefTransactionId)
		})
	}
}

// TestLateAnswer: a cancelled Get is adopted by the next Receive, and handed back
// when none comes.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{StrategyDirect, StrategySingle, StrategyBatch} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			gets := make(chan func(*pb.QueuesDownstreamResponse), 1)
			hold := holding()
			server := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
				if request.RequestTypeData == pb.QueuesDownstreamRequestType_Get {
					gets <- answer
					return
				}
				hold(request, answer)
			}}
			c := opened(t, started(t, Config{Address: server.serve(t), Strategy: strategy}), "q")
			cancelled := func() func(*pb.QueuesDownstreamResponse) {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- c.Receive(ctx, transport.ReceiveRequest{Slots: 1, Wait: time.Second},
						func(transport.Delivery) { t.Error("a message after the cancel") })
				}()
				answer := <-gets
				cancel()
				require.NoError(t, <-ended)
				return answer
			}
			answer := cancelled()
			var adopted []transport.Delivery
			ended := make(chan error, 1)
			go func() {
				ended <- c.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second},
					func(d transport.Delivery) { adopted = append(adopted, d) })
			}()
			answer(&pb.QueuesDownstreamResponse{TransactionId: "adopted", Messages: []*pb.QueueMessage{message("a", 1)}})
			require.NoError(t, <-ended)
			require.Len(t, adopted, 1)
			require.Empty(t, gets, "no second Get")
			require.NoError(t, adopted[0].Ack(t.Context()))

			cancelled()(&pb.QueuesDownstreamResponse{TransactionId: "late", Messages: []*pb.QueueMessage{message("b", 2)}})
			within(t, func() bool { return len(server.of(pb.QueuesDownstreamRequestType_CloseByClient)) == 1 }, "handed back")
			require.Equal(t, "late", server.of(pb.QueuesDownstreamRequestType_CloseByClient)[0].RefTransactionId)
		})
	}
}

// TestBatchSettlesTogether: nothing is sent before the last message is decided,
// and giving back comes after acks and nacks.
func TestBatchSettlesTogether(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: holding(message("a", 1), message("b", 2), message("c", 3))}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyBatch}), "q")
	consumer := c.(*consumer)
	consumer.strategy = newBatch(consumer.transport.consumer, "q")
	consumer.strategy.(*batch).items = 3
	got := received(t, c, 3)
	var settling sync.WaitGroup
	settle := func(f func(context.Context) error) {
		settling.Go(func() {
			if err := f(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	settle(got[0].Release)
	held := got[0].(*delivery).held
	within(t, func() bool { return len(undecided(held)) == 1 }, "decided")
	settle(got[1].Nack)
	within(t, func() bool { return len(undecided(held)) == 2 }, "decided")
	require.Empty(t, server.of(pb.QueuesDownstreamRequestType_NAckRange))
	settle(got[2].Ack)
	settling.Wait()
	server.mu.Lock()
	kinds := make([]pb.QueuesDownstreamRequestType, len(server.requests))
	for i, request := range server.requests {
		kinds[i] = request.RequestTypeData
	}
	server.mu.Unlock()
	require.Equal(t, []pb.QueuesDownstreamRequestType{
		pb.QueuesDownstreamRequestType_Get, pb.QueuesDownstreamRequestType_NAckRange, pb.QueuesDownstreamRequestType_AckRange,
		pb.QueuesDownstreamRequestType_CloseByClient, pb.QueuesDownstreamRequestType_ActiveOffsets,
	}, kinds)
}

// TestAMessageAckedBesideARefusedOneIsNotCalledLost: an early task that is told so does
// not run, and nobody would deliver it again.
func TestAMessageAckedBesideARefusedOneIsNotCalledLost(t *testing.T) {
	t.Parallel()
	server := &fakeServer{}
	hold := holding(message("a", 1), message("b", 2))
	server.downstream = func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_AckRange { // it has acked the first
			answer(&pb.QueuesDownstreamResponse{IsError: true, Error: "invalid ack sequence id 2"})
			return
		}
		hold(request, answer)
	}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyBatch}), "q")
	consumer := c.(*consumer)
	consumer.strategy = newBatch(consumer.transport.consumer, "q")
	consumer.strategy.(*batch).items = 2
	var settling sync.WaitGroup
	for _, d := range received(t, c, 2) {
		settling.Go(func() {
			err := d.Ack(t.Context())
			if !errors.Is(err, transport.ErrUnconfirmed) || errors.Is(err, transport.ErrLost) {
				t.Error(err)
			}
		})
	}
	settling.Wait()
	require.Len(t, server.of(pb.QueuesDownstreamRequestType_AckRange), 1)
}

// TestBatchCloseProvesWhatIsDecided: a batch that is cut short by Close does not
// repeat the work that is done.
func TestBatchCloseProvesWhatIsDecided(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: holding(message("a", 1), message("b", 2))}
	c := opened(t, started(t, Config{Address: server.serve(t), Strategy: StrategyBatch}), "q")
	consumer := c.(*consumer)
	consumer.strategy = newBatch(consumer.transport.consumer, "q")
	consumer.strategy.(*batch).items = 2
	got := received(t, c, 2)
	acked := make(chan error, 1)
	go func() { acked <- got[0].Ack(t.Context()) }()
	held := got[0].(*delivery).held
	within(t, func() bool { return len(undecided(held)) == 1 }, "decided")
	require.NoError(t, c.Close())
	require.NoError(t, <-acked)
	require.ErrorIs(t, got[1].Ack(t.Context()), transport.ErrLost)
	require.Len(t, server.of(pb.QueuesDownstreamRequestType_AckRange), 1)
}

// undecided are the settlements that wait for others.
func undecided(t *transaction) []*settlement {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.decided
}

func TestBatchGrowsWithBacklog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &batch{items: 1, skew: time.Hour, now: func() time.Time { return now }}
	aged := func(n int, age time.Duration) []*pb.QueueMessage {
		messages := make([]*pb.QueueMessage, n)
		for i := range messages {
			messages[i] = message("m", 1)
			messages[i].Attributes.Timestamp = now.Add(-age).UnixNano()
		}
		return messages
	}
	// The server's clock is two minutes behind.
	require.Equal(t, 1, b.next(1, aged(1, 2*time.Minute)), "the first message tells the skew only")
	require.Equal(t, 2, b.next(1, aged(1, 2*time.Minute+time.Second)))
	require.Equal(t, 8, b.next(4, aged(4, 2*time.Minute+time.Second)))
	require.Equal(t, 2, b.next(8, aged(5, 2*time.Minute+time.Second)), "not full")
	require.Equal(t, 1, b.next(8, nil))
	require.Equal(t, 1, b.next(4, aged(4, 2*time.Minute+time.Millisecond)), "fresh ones")
	require.Equal(t, maxGetItems, b.next(maxGetItems, aged(maxGetItems, time.Hour)))
}
