package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/metrics"
	"runtime/pprof"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/broker"
)

// What a child can serve.
const (
	serveBroker  = "broker"
	serveNothing = "nothing"
)

// state is the line that a child writes when it is ready, and again for each line
// that it reads.
type state struct {
	Address string `json:"address"`
	Objects uint64 `json:"objects"` // allocated since the start
	Bytes   uint64 `json:"bytes"`   // allocated since the start
}

// serve is the child. It ends with its standard input, so it does not outlive its
// parent.
func serve(ctx context.Context, o options, in io.Reader, out io.Writer) (err error) {
	address, stop, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if o.profile != "" {
		end, profileErr := profile(o)
		if profileErr != nil {
			return profileErr
		}
		defer end()
	}
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(stateOf(address)); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := encoder.Encode(stateOf(address)); err != nil {
			return err
		}
	}
	return nil
}

func start(ctx context.Context, o options) (string, func() error, error) {
	if o.serve == serveNothing {
		return startNothing(ctx)
	}
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0", DataDir: o.data})
	if err != nil {
		return "", nil, err
	}
	if err := b.Start(ctx); err != nil {
		return "", nil, err
	}
	return b.Addr().String(), b.Stop, nil
}

func stateOf(address string) state {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return state{
		Address: address,
		Objects: samples[0].Value.Uint64(),
		Bytes:   samples[1].Value.Uint64(),
	}
}

// profile writes a CPU profile until end is called.
func profile(o options) (end func(), err error) {
	name := o.serve
	if o.data != "" {
		name += "-" + filepath.Base(o.data)
	}
	f, err := os.Create(filepath.Join(o.profile, name+".pprof")) //nolint:gosec // the user's choice
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// nothing answers what is measured at once and stores nothing: what remains is
// the cost of gRPC, of the messages' encoding, and of the client.
type nothing struct {
	pb.KubemqServer // nil: nothing else is called
}

func startNothing(ctx context.Context) (string, func() error, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(broker.DefaultMaxMessageBytes))
	pb.RegisterKubemqServer(server, nothing{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() error {
		server.Stop()
		return <-served
	}, nil
}

// QueuesUpstream answers every message with a result.
func (nothing) QueuesUpstream(stream pb.Kubemq_QueuesUpstreamServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		response := &pb.QueuesUpstreamResponse{RefRequestID: request.RequestID}
		for _, m := range request.Messages {
			response.Results = append(response.Results, &pb.SendQueueMessageResult{MessageID: m.MessageID, SentAt: 1})
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// QueuesDownstream answers every Get with as many messages as it asks for.
func (nothing) QueuesDownstream(stream pb.Kubemq_QueuesDownstreamServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.RequestTypeData != pb.QueuesDownstreamRequestType_Get {
			continue
		}
		response := &pb.QueuesDownstreamResponse{RefRequestId: request.RequestID, TransactionId: request.RequestID}
		for i := range int(request.MaxItems) {
			m := message(0)
			m.Attributes = &pb.QueueMessageAttributes{Sequence: uint64(i + 1), ReceiveCount: 1}
			response.Messages = append(response.Messages, m)
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}
