package kubemq

import (
	"context"
	"net"
	"sync"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// fakeServer answers as a test says, for what no real server does on demand.
type fakeServer struct {
	pb.KubemqServer
	send func(ctx context.Context, message *pb.QueueMessage) (*pb.SendQueueMessageResult, error)
	// downstream handles one request; answer may be called at any time.
	downstream func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse))

	mu       sync.Mutex
	sent     []*pb.QueueMessage
	batches  []int // how many messages each had
	requests []*pb.QueuesDownstreamRequest
	streams  int
}

func (f *fakeServer) Ping(context.Context, *pb.Empty) (*pb.PingResult, error) {
	return &pb.PingResult{Version: "fake"}, nil
}

func (f *fakeServer) SendQueueMessage(ctx context.Context, message *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	f.mu.Lock()
	f.sent = append(f.sent, message)
	f.mu.Unlock()
	if f.send != nil {
		return f.send(ctx, message)
	}
	return &pb.SendQueueMessageResult{MessageID: message.MessageID}, nil
}

func (f *fakeServer) QueuesDownstream(stream pb.Kubemq_QueuesDownstreamServer) error {
	f.mu.Lock()
	f.streams++
	f.mu.Unlock()
	var sending sync.Mutex
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.requests = append(f.requests, request)
		f.mu.Unlock()
		f.downstream(request, func(answer *pb.QueuesDownstreamResponse) {
			sending.Lock()
			defer sending.Unlock()
			answer.RefRequestId = request.RequestID
			answer.RequestTypeData = request.RequestTypeData
			_ = stream.Send(answer)
		})
	}
}

func (f *fakeServer) SendQueueMessagesBatch(ctx context.Context, batch *pb.QueueMessagesBatchRequest) (*pb.QueueMessagesBatchResponse, error) {
	f.mu.Lock()
	f.batches = append(f.batches, len(batch.Messages))
	f.mu.Unlock()
	answer := &pb.QueueMessagesBatchResponse{BatchID: batch.BatchID}
	for _, message := range batch.Messages {
		result, err := f.SendQueueMessage(ctx, message)
		if err != nil {
			return nil, err
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// of lists the requests of one kind so far.
func (f *fakeServer) of(kind pb.QueuesDownstreamRequestType) []*pb.QueuesDownstreamRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*pb.QueuesDownstreamRequest
	for _, request := range f.requests {
		if request.RequestTypeData == kind {
			found = append(found, request)
		}
	}
	return found
}

// messagesSent lists what was sent so far.
func (f *fakeServer) messagesSent() []*pb.QueueMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*pb.QueueMessage(nil), f.sent...)
}

// serve starts the fake and returns its address.
func (f *fakeServer) serve(t *testing.T) string {
	t.Helper()
	return serveFake(t, f)
}

// serveFake is serve for a server that has more calls.
func serveFake(t *testing.T, f pb.KubemqServer) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	pb.RegisterKubemqServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return listener.Addr().String()
}

// holding answers Gets with the messages given, in one transaction for each Get,
// and barriers at once.
func holding(messages ...*pb.QueueMessage) func(*pb.QueuesDownstreamRequest, func(*pb.QueuesDownstreamResponse)) {
	var mu sync.Mutex
	left := messages
	return func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		switch request.RequestTypeData {
		case pb.QueuesDownstreamRequestType_Get:
			mu.Lock()
			n := min(int(request.MaxItems), len(left))
			given := left[:n]
			left = left[n:]
			mu.Unlock()
			answer(&pb.QueuesDownstreamResponse{TransactionId: "tx-" + request.RequestID, Messages: given})
		case pb.QueuesDownstreamRequestType_ActiveOffsets:
			answer(&pb.QueuesDownstreamResponse{})
		default:
		}
	}
}

func message(body string, sequence uint64) *pb.QueueMessage {
	return &pb.QueueMessage{
		MessageID: "id-" + body, Channel: "q", Body: []byte(body),
		Attributes: &pb.QueueMessageAttributes{Sequence: sequence, ReceiveCount: 1},
	}
}
