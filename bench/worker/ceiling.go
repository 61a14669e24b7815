package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/bench/meter"
	"github.com/lovage-project/lovage/pkg/protocol"
)

const (
	// loops share the slots, each on a connection of its own, so that one has work
	// while another waits for the broker.
	loops = 2
	// maxGet is the most that one Get asks for, as in the transport.
	maxGet = 1024
	// getWait is how long a Get waits, in milliseconds.
	getWait = 1000
	// resultExpires is Celery's, in seconds.
	resultExpires = 86_400
)

// startLoops is the ceiling: loops that take what the slots allow, store a result for
// each message if they should, in one request, and settle all with one more. Nothing
// is decoded, and nothing is run.
func startLoops(ctx context.Context, o childOptions, m *meter.Meter) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	failures := make([]error, loops) // one place for each, so that no lock is needed
	for i := range loops {
		n, err := connect(o.address)
		if err != nil {
			cancel()
			return nil, err
		}
		group.Go(func() {
			failures[i] = errors.Join(loop(ctx, n.client, o, m), n.stop())
		})
	}
	return func() error {
		cancel()
		group.Wait()
		return errors.Join(failures...)
	}, nil
}

func loop(ctx context.Context, client pb.KubemqClient, o childOptions, m *meter.Meter) error {
	down, err := client.QueuesDownstream(ctx)
	if err != nil {
		return err
	}
	up, err := client.QueuesUpstream(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		got, err := get(down, max(1, min(o.slots/loops, maxGet)), false)
		if err != nil {
			return ended(ctx, err)
		}
		if len(got.Messages) == 0 {
			continue
		}
		if o.results {
			if err := storeResults(up, got.Messages); err != nil {
				return ended(ctx, err)
			}
		}
		for range got.Messages {
			m.Start()
		}
		err = down.Send(&pb.QueuesDownstreamRequest{
			RequestID: "ack", ClientID: "bench", Channel: queueName, RequestTypeData: pb.QueuesDownstreamRequestType_AckAll,
			RefTransactionId: got.TransactionId,
		})
		if err != nil {
			return ended(ctx, err)
		}
	}
	return nil
}

// ended is nil for an error that is due to the end.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// get asks for messages and waits for the answer.
func get(stream pb.Kubemq_QueuesDownstreamClient, n int, autoAck bool) (*pb.QueuesDownstreamResponse, error) {
	err := stream.Send(&pb.QueuesDownstreamRequest{
		RequestID: "get", ClientID: "bench", Channel: queueName, RequestTypeData: pb.QueuesDownstreamRequestType_Get,
		MaxItems: int32(n), WaitTimeout: getWait, AutoAck: autoAck,
	})
	if err != nil {
		return nil, err
	}
	response, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if response.IsError {
		return nil, fmt.Errorf("get: %s", response.Error)
	}
	return response, nil
}

// storeResults sends a result as the worker's is for each message, into a queue of its
// own.
func storeResults(stream pb.Kubemq_QueuesUpstreamClient, messages []*pb.QueueMessage) error {
	batch := make([]*pb.QueueMessage, len(messages))
	for i := range messages {
		id := uuid.NewString()
		body, _, _, err := protocol.EncodeMeta("json", protocol.Meta{
			TaskID: id, Status: protocol.StateSuccess, DateDone: time.Now().UTC(),
		})
		if err != nil {
			return err
		}
		batch[i] = &pb.QueueMessage{
			ClientID: "bench", Channel: "celery-result-" + id, Body: body, Metadata: `{"status":"SUCCESS"}`,
			Policy: &pb.QueueMessagePolicy{ExpirationSeconds: resultExpires},
		}
	}
	return sendBatch(stream, batch)
}
