package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	bodyBytes = 256
	queueName = "bench"
	// fillBatch is what fills a queue that is then measured.
	fillBatch = 1000
)

// workload is one row of the table.
type workload struct {
	batch, clients int
	// messages are sent and taken at most, so that big batches don't outrun the
	// disk's space and small ones don't wait for a queue to be filled.
	messages int64
}

var workloads = []workload{
	{1, 1, 10_000}, {10, 1, 60_000}, {100, 1, 200_000}, {1000, 1, 300_000},
	{1, 4, 20_000}, {10, 4, 100_000}, {100, 4, 200_000}, {1000, 4, 300_000},
}

// figure is a measured rate and what it cost the server in allocations.
type figure struct {
	perSecond      float64 // messages
	objects, bytes float64 // allocated per message
}

// report is what was measured of one server.
type report struct {
	subject
	send, get map[workload]figure
	latency   latency
	delayed   delayedFigure
}

func measure(ctx context.Context, o options, s subject) (r report, err error) {
	c, err := startChild(ctx, o, s)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	r = report{subject: s, send: make(map[workload]figure), get: make(map[workload]figure)}
	for _, w := range workloads {
		if r.send[w], r.get[w], err = measureWorkload(ctx, o, c, s, w); err != nil {
			return r, fmt.Errorf("batch %d, %d clients: %w", w.batch, w.clients, err)
		}
	}
	if s.serve == serveNothing {
		return r, nil
	}
	if r.latency, err = measureLatency(ctx, c); err != nil {
		return r, fmt.Errorf("latency: %w", err)
	}
	if r.delayed, err = measureDelayed(ctx, c); err != nil {
		return r, fmt.Errorf("delayed messages: %w", err)
	}
	return r, nil
}

// measureWorkload measures sending, then taking what was sent.
func measureWorkload(ctx context.Context, o options, c *child, s subject, w workload) (sent, got figure, err error) {
	if sent, err = w.run(ctx, o, c, sendTurns); err != nil {
		return sent, got, fmt.Errorf("send: %w", err)
	}
	if s.serve == serveBroker {
		if err = fill(ctx, c, w.messages, bodyBytes); err != nil {
			return sent, got, fmt.Errorf("fill the queue: %w", err)
		}
	}
	if got, err = w.run(ctx, o, c, getTurns); err != nil {
		return sent, got, fmt.Errorf("get: %w", err)
	}
	if s.serve == serveBroker {
		err = purge(ctx, c)
	}
	return sent, got, err
}

// turns makes requests of one client, one after the other, for as long as more
// says so.
type turns func(ctx context.Context, client pb.KubemqClient, batch int, more func() bool) error

// run measures turns of all clients at once.
func (w workload) run(ctx context.Context, o options, c *child, turns turns) (figure, error) {
	before, err := c.state()
	if err != nil {
		return figure{}, err
	}
	var done atomic.Int64
	begin := time.Now()
	more := func() bool {
		return time.Since(begin) < o.cell && done.Add(int64(w.batch)) <= w.messages
	}
	var group sync.WaitGroup
	failures := make([]error, w.clients) // one place for each, so that no lock is needed
	for i := range w.clients {
		group.Go(func() {
			client, disconnect, err := c.connect()
			if err != nil {
				failures[i] = err
				return
			}
			defer disconnect()
			failures[i] = turns(ctx, client, w.batch, more)
		})
	}
	group.Wait()
	took := time.Since(begin)
	after, err := c.state()
	if err := errors.Join(errors.Join(failures...), err); err != nil {
		return figure{}, err
	}
	n := float64(min(done.Load(), w.messages))
	return figure{
		perSecond: n / took.Seconds(),
		objects:   float64(after.Objects-before.Objects) / n,
		bytes:     float64(after.Bytes-before.Bytes) / n,
	}, nil
}

// message is what is sent; gogo/protobuf does not change it.
func message(delaySeconds int32) *pb.QueueMessage {
	m := &pb.QueueMessage{ClientID: "bench", Channel: queueName, Body: make([]byte, bodyBytes)}
	if delaySeconds > 0 {
		m.Policy = &pb.QueueMessagePolicy{DelaySeconds: delaySeconds}
	}
	return m
}

func batchOf(n int, m *pb.QueueMessage) []*pb.QueueMessage {
	messages := make([]*pb.QueueMessage, n)
	for i := range messages {
		messages[i] = m
	}
	return messages
}

// sendTurns sends on one stream and waits for each response.
func sendTurns(ctx context.Context, client pb.KubemqClient, batch int, more func() bool) error {
	return sendBatches(ctx, client, batchOf(batch, message(0)), more)
}

func sendBatches(ctx context.Context, client pb.KubemqClient, messages []*pb.QueueMessage, more func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.QueuesUpstream(ctx)
	if err != nil {
		return err
	}
	for more() {
		if err := stream.Send(&pb.QueuesUpstreamRequest{RequestID: "r", Messages: messages}); err != nil {
			return err
		}
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if response.IsError || len(response.Results) != len(messages) || response.Results[0].IsError {
			return fmt.Errorf("refused: %v", response)
		}
	}
	return nil
}

// getTurns takes batches with Get and settles each with AckAll. The next Get of a
// stream comes after the settlement is durable, in the broker and in the original.
func getTurns(ctx context.Context, client pb.KubemqClient, batch int, more func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.QueuesDownstream(ctx)
	if err != nil {
		return err
	}
	for more() {
		response, err := getBatch(stream, batch)
		if err != nil {
			return err
		}
		if len(response.Messages) != batch {
			return fmt.Errorf("got %d messages of %d", len(response.Messages), batch)
		}
	}
	return nil
}

func getBatch(stream pb.Kubemq_QueuesDownstreamClient, n int) (*pb.QueuesDownstreamResponse, error) {
	err := stream.Send(&pb.QueuesDownstreamRequest{
		RequestID: "g", ClientID: "bench", Channel: queueName, RequestTypeData: pb.QueuesDownstreamRequestType_Get,
		MaxItems: int32(n), WaitTimeout: 5000,
	})
	if err != nil {
		return nil, err
	}
	response, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if response.IsError {
		return nil, errors.New(response.Error)
	}
	if len(response.Messages) == 0 {
		return nil, errors.New("no message came in time")
	}
	return response, stream.Send(&pb.QueuesDownstreamRequest{
		RequestID: "a", ClientID: "bench", Channel: queueName, RequestTypeData: pb.QueuesDownstreamRequestType_AckAll,
		RefTransactionId: response.TransactionId,
	})
}

// fill sends until so many messages wait.
func fill(ctx context.Context, c *child, messages int64, size int) error {
	client, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	info, err := client.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: queueName})
	if err != nil {
		return err
	}
	m := message(0)
	m.Body = make([]byte, size)
	missing := messages - info.Info.Waiting
	return sendBatches(ctx, client, batchOf(fillBatch, m), func() bool {
		missing -= fillBatch
		return missing > -fillBatch
	})
}

func purge(ctx context.Context, c *child) error {
	client, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	response, err := client.AckAllQueueMessages(ctx, &pb.AckAllQueueMessagesRequest{
		ClientID: "bench", Channel: queueName, WaitTimeSeconds: 1,
	})
	if err == nil && response.IsError {
		err = errors.New(response.Error)
	}
	return err
}
