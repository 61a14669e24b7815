package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestNothingAnsweredIsLostByKill9 kills a broker under load several times and
// accounts for every message: what was answered is there, what was confirmed as
// acked is gone, what was in flight is back with its count, delayed messages come
// and not early, and the order of each sender is kept.
func TestNothingAnsweredIsLostByKill9(t *testing.T) {
	const rounds, answersPerRound = 3, 1000
	dir := t.TempDir()
	l := newLedger()
	for round := range rounds {
		child := startChild(t, dir)
		load := startLoad(t, l, child.address, round)
		<-l.round(answersPerRound)
		child.kill(t)
		load.wait()
	}
	require.GreaterOrEqual(t, l.answered, rounds*answersPerRound)
	require.Positive(t, l.count(func(e *entry) bool { return e.acked }))
	require.Positive(t, l.count(func(e *entry) bool { return e.nacked > 0 }))

	child := startChild(t, dir)
	drain(t, l, child.address)
	child.stop(t)
	require.Empty(t, l.faults)
}

// load is a number of senders and consumers that run until the broker is killed.
type load struct {
	t      *testing.T
	ledger *ledger
	client pb.KubemqClient
	conn   *grpc.ClientConn
	round  int
	group  sync.WaitGroup
}

func dialChild(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	return conn
}

func startLoad(t *testing.T, l *ledger, address string, round int) *load {
	t.Helper()
	conn := dialChild(t, address)
	r := &load{t: t, ledger: l, client: pb.NewKubemqClient(conn), conn: conn, round: round}
	for i := range 4 {
		r.group.Go(func() { r.sendSingles(i) })
	}
	r.group.Go(r.sendStream)
	r.group.Go(r.sendDelayed)
	for range 3 {
		r.group.Go(r.consume)
	}
	return r
}

func (r *load) wait() {
	r.group.Wait()
	require.NoError(r.t, r.conn.Close())
}

func (r *load) message(sender string, number int) *pb.QueueMessage {
	body := fmt.Sprintf("%s-%d-%d", sender, r.round, number)
	r.ledger.sent(body, r.round*1_000_000+number)
	return testMessage("q", body)
}

// sendSingles sends one message at a time and waits for each answer.
func (r *load) sendSingles(sender int) {
	for n := 0; ; n++ {
		m := r.message(fmt.Sprint("single", sender), n)
		result, err := r.client.SendQueueMessage(r.t.Context(), m)
		if err != nil {
			return
		}
		r.ledger.answer(string(m.Body), result)
	}
}

// sendStream keeps many requests of two messages under way on one stream.
func (r *load) sendStream() {
	stream, err := r.client.QueuesUpstream(r.t.Context())
	if err != nil {
		return
	}
	var receiver sync.WaitGroup
	defer receiver.Wait()
	requests := make(chan *pb.QueuesUpstreamRequest, 64)
	receiver.Go(func() {
		for request := range requests {
			response, err := stream.Recv()
			if err != nil {
				continue // drain, so that the sender never blocks
			}
			for i, m := range request.Messages {
				r.ledger.answer(string(m.Body), response.Results[i])
			}
		}
	})
	defer close(requests)
	for n := 0; ; n += 2 {
		request := &pb.QueuesUpstreamRequest{Messages: []*pb.QueueMessage{r.message("stream", n), r.message("stream", n+1)}}
		if stream.Send(request) != nil {
			return
		}
		requests <- request
	}
}

func (r *load) sendDelayed() {
	for n := 0; ; n++ {
		m := r.message("delayed", n)
		m.Policy = &pb.QueueMessagePolicy{DelaySeconds: int32(1 + n%2)}
		result, err := r.client.SendQueueMessage(r.t.Context(), m)
		if err != nil {
			return
		}
		r.ledger.answer(string(m.Body), result)
	}
}

// consume takes messages and acks, nacks or keeps them, until the stream breaks.
// Every settlement is followed by a barrier.
func (r *load) consume() {
	stream, err := r.client.QueuesDownstream(r.t.Context())
	if err != nil {
		return
	}
	for {
		got, err := exchange(stream, &pb.QueuesDownstreamRequest{
			ClientID: "c", RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 40, WaitTimeout: 1000,
		})
		if err != nil {
			return
		}
		if r.settleSome(stream, got) != nil {
			return
		}
	}
}

func exchange(stream pb.Kubemq_QueuesDownstreamClient, request *pb.QueuesDownstreamRequest) (*pb.QueuesDownstreamResponse, error) {
	if err := stream.Send(request); err != nil {
		return nil, err
	}
	return stream.Recv()
}

// settleSome acks most messages, nacks two and keeps one in flight.
func (r *load) settleSome(stream pb.Kubemq_QueuesDownstreamClient, got *pb.QueuesDownstreamResponse) error {
	var acks, nacks []*entry
	ack := &pb.QueuesDownstreamRequest{RequestTypeData: typeAckRange, RefTransactionId: got.TransactionId}
	nack := &pb.QueuesDownstreamRequest{RequestTypeData: typeNAckRange, RefTransactionId: got.TransactionId}
	for i, m := range got.Messages {
		e := r.ledger.delivered(m)
		seq := int64(m.Attributes.Sequence)
		switch {
		case i > 2:
			ack.SequenceRange = append(ack.SequenceRange, seq)
			acks = append(acks, e)
		case i > 0:
			nack.SequenceRange = append(nack.SequenceRange, seq)
			nacks = append(nacks, e)
		}
	}
	r.ledger.update(func() {
		for _, e := range acks {
			e.ackSent = true
		}
		for _, e := range nacks {
			e.nacksSent++
		}
	})
	for _, request := range []*pb.QueuesDownstreamRequest{ack, nack} {
		if len(request.SequenceRange) == 0 {
			continue
		}
		if err := stream.Send(request); err != nil {
			return err
		}
	}
	_, err := exchange(stream, &pb.QueuesDownstreamRequest{RequestTypeData: typeActiveOffsets, RefTransactionId: got.TransactionId})
	if err != nil {
		return err
	}
	r.ledger.update(func() {
		for _, e := range acks {
			e.acked = true
		}
		for _, e := range nacks {
			e.nacked++
		}
	})
	return nil
}

// drain takes everything that is left and requires that nothing is missing.
func drain(t *testing.T, l *ledger, address string) {
	t.Helper()
	conn := dialChild(t, address)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	stream, err := pb.NewKubemqClient(conn).QueuesDownstream(ctx)
	require.NoError(t, err)
	owed := l.owed()
	require.Positive(t, owed)
	last := make(map[string]int)
	for drained := 0; l.owed() > 0; {
		got, err := exchange(stream, &pb.QueuesDownstreamRequest{
			ClientID: "c", RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 500, WaitTimeout: 1000,
		})
		require.NoError(t, err, "%d of %d owed messages are missing", l.owed(), owed)
		for _, m := range got.Messages {
			checkOrder(t, last, m, l.delivered(m))
		}
		drained += len(got.Messages)
		require.NoError(t, stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: typeAckAll, RefTransactionId: got.TransactionId}))
		l.update(func() {
			for _, m := range got.Messages {
				e := l.entries[string(m.Body)]
				e.ackSent, e.acked = true, true
			}
		})
	}
	t.Logf("%d sends answered, %d messages were owed after the crashes", l.answered, owed)
}

// checkOrder requires the order of the sender for messages that were never sent
// to the tail.
func checkOrder(t *testing.T, last map[string]int, m *pb.QueueMessage, e *entry) {
	t.Helper()
	sender, _, _ := strings.Cut(string(m.Body), "-")
	if sender == "delayed" || e.nacksSent > 0 {
		return
	}
	require.Greater(t, e.number, last[sender]-1, "%q overtook a message of its sender", m.Body)
	last[sender] = e.number
}
