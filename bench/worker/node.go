package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lovage-project/lovage/pkg/broker"
)

// fillBytes and fillMessages bound a batch that fills a queue.
const (
	fillBytes    = 4 << 20
	fillMessages = 1000
)

// node is an embedded broker in a process of its own, and the benchmark's connection
// to it.
type node struct {
	process *process // nil where the broker is inside the worker
	address string
	client  pb.KubemqClient
	conn    *grpc.ClientConn
}

// startNode starts a broker; data is the directory of its store, "" = in memory, and
// listen its address, "" = any.
func startNode(ctx context.Context, data, listen string) (*node, error) {
	p, err := startSelf(ctx, roleBroker, "-data", data, "-listen", listen)
	if err != nil {
		return nil, err
	}
	var ready readiness
	if err := p.read(&ready); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	n, err := connect(ready.Address)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	n.process = p
	return n, nil
}

// dialPause is how long after a failed attempt to connect the next one comes.
const dialPause = 20 * time.Millisecond

// connect makes a node of a broker that somebody else runs, or starts just now.
func connect(address string) (*node, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: dialPause, Multiplier: 1, MaxDelay: dialPause},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(broker.DefaultMaxMessageBytes), grpc.WaitForReady(true)))
	if err != nil {
		return nil, err
	}
	return &node{address: address, client: pb.NewKubemqClient(conn), conn: conn}, nil
}

func (n *node) stop() error {
	err := n.conn.Close()
	if n.process == nil {
		return err
	}
	return errors.Join(err, n.process.stop())
}

// depth is how many messages wait or are in flight.
func (n *node) depth(ctx context.Context) (int64, error) {
	info, err := n.client.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: queueName})
	if err != nil {
		return 0, err
	}
	if len(info.Info.Queues) == 0 {
		return 0, nil
	}
	return info.Info.Queues[0].Waiting, nil
}

// fill publishes a number of messages in batches.
func (n *node) fill(ctx context.Context, t task, queue string, messages int) error {
	if messages == 0 {
		return nil
	}
	template, err := t.template(queue)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.client.QueuesUpstream(ctx)
	if err != nil {
		return err
	}
	size := max(1, min(fillMessages, fillBytes/(len(template.envelope)+len(template.headers))))
	for sent := 0; sent < messages; {
		batch := make([]*pb.QueueMessage, min(size, messages-sent))
		for i := range batch {
			batch[i] = template.next().message(queue)
		}
		if err := sendBatch(stream, batch); err != nil {
			return fmt.Errorf("fill queue %q: %w", queue, err)
		}
		sent += len(batch)
	}
	return nil
}

func sendBatch(stream pb.Kubemq_QueuesUpstreamClient, batch []*pb.QueueMessage) error {
	if err := stream.Send(&pb.QueuesUpstreamRequest{RequestID: "fill", Messages: batch}); err != nil {
		return err
	}
	response, err := stream.Recv()
	if err != nil {
		return err
	}
	if response.IsError || len(response.Results) != len(batch) || response.Results[0].IsError {
		return fmt.Errorf("the broker refused: %v", response)
	}
	return nil
}

// message is what kubemq-celery sends.
func (w wire) message(queue string) *pb.QueueMessage {
	return &pb.QueueMessage{
		ClientID: "bench", Channel: queue, Body: w.envelope, Metadata: string(w.headers),
		Tags: map[string]string{"priority": "0"}, Policy: &pb.QueueMessagePolicy{},
	}
}

// serveBroker is the child that a node is.
func serveBroker(ctx context.Context, o childOptions) (address string, stop func() error, err error) {
	listen := o.listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	b, err := broker.New(broker.Config{Listen: listen, DataDir: o.data})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		return "", nil, err
	}
	return b.Addr().String(), b.Stop, nil
}
