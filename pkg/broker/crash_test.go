package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// killsVariable sets how often TestNothingAnsweredIsLostByKill9 kills; "make kill"
// does so.
const killsVariable = "LOVAGE_BROKER_KILLS"

const (
	// defaultKills is for an ordinary test run.
	defaultKills = 5
	// longestRound bounds the load between two kills.
	longestRound = 400 * time.Millisecond
	// longestStart is about what a child needs to open its store.
	longestStart = 100 * time.Millisecond
)

// TestNothingAnsweredIsLostByKill9 kills a broker at random moments, under load and
// while it starts, and accounts for every message: what was answered is there, what
// was confirmed as acked is gone, what was in flight is back with its count, delayed
// messages come and not early, and the order of each sender is kept.
func TestNothingAnsweredIsLostByKill9(t *testing.T) {
	kills := numberFrom(t, killsVariable, defaultKills)
	started := time.Now()
	dir := t.TempDir()
	l := newLedger()
	for round := range kills {
		// The child that is to be killed while it starts finds the work of those
		// before it to recover.
		if round%5 == 4 {
			child := launchChild(t, dir)
			<-time.After(rand.N(longestStart))
			child.kill(t)
			continue
		}
		child := startChild(t, dir)
		load := startLoad(t, l, child.address, round)
		if round == 0 {
			require.Eventually(t, l.sawEverything, waitLimit, time.Millisecond)
		}
		<-time.After(rand.N(longestRound))
		child.kill(t)
		load.wait()
	}
	child := startChild(t, dir)
	owed := drain(t, l, child.address, longestDelay)
	child.stop(t)

	t.Logf("%d kills in %v", kills, time.Since(started).Round(time.Second))
	t.Log(l.summary(owed))
	require.Empty(t, l.faults)
	require.Zero(t, l.owed(), "lost messages")
}

// numberFrom is an environment variable, or what it is without.
func numberFrom(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	number, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	require.Positive(t, number, variable)
	return number
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

// longestDelay is the longest of sendDelayed, and some more.
const longestDelay = 3 * time.Second

// drain takes everything that is left, until nothing comes for so long, and returns
// how many messages had to come.
func drain(t *testing.T, l *ledger, address string, silence time.Duration) (owed int) {
	t.Helper()
	conn := dialChild(t, address)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), drainLimit)
	defer cancel()
	stream, err := pb.NewKubemqClient(conn).QueuesDownstream(ctx)
	require.NoError(t, err)
	owed = l.owed()
	last := make(map[string]int)
	for {
		got, err := exchange(stream, &pb.QueuesDownstreamRequest{
			ClientID: "c", RequestTypeData: pb.QueuesDownstreamRequestType_Get,
			Channel: "q", MaxItems: 500, WaitTimeout: int32(silence.Milliseconds()),
		})
		require.NoError(t, err, "%d of %d owed messages are missing", l.owed(), owed)
		if len(got.Messages) == 0 {
			return owed
		}
		for _, m := range got.Messages {
			checkOrder(t, last, m, l.delivered(m))
		}
		require.NoError(t, stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: typeAckAll, RefTransactionId: got.TransactionId}))
		l.update(func() {
			for _, m := range got.Messages {
				e := l.entries[string(m.Body)]
				e.ackSent, e.acked, e.drained = true, true, true
			}
		})
	}
}

// drainLimit bounds drain.
const drainLimit = time.Minute

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
