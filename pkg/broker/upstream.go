package broker

import (
	"context"
	"errors"
	"io"

	pb "github.com/kubemq-io/protobuf/go"
)

// maxUpstreamRequests bounds the requests of one stream that are on their way to
// the disk; the next one is read when the first is answered.
const maxUpstreamRequests = 256

// upstreamRequest is a request whose messages are on their way.
type upstreamRequest struct {
	response *pb.QueuesUpstreamResponse
	sending  *sending // nil if the response is complete
	lost     bool     // a quirk: it is not sent
}

// QueuesUpstream serves a sender's stream until the client ends it. Requests take
// effect and are answered in their order, however many are under way.
func (s *service) QueuesUpstream(stream pb.Kubemq_QueuesUpstreamServer) error {
	ctx := stream.Context()
	requests := make(chan upstreamRequest, maxUpstreamRequests)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for request := range requests {
			request.answer(ctx, stream)
		}
	}()
	s.readUpstream(ctx, stream, requests)
	close(requests)
	<-answered
	return errStreamEnded
}

func (s *service) readUpstream(ctx context.Context, stream pb.Kubemq_QueuesUpstreamServer, requests chan<- upstreamRequest) {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			<-ctx.Done() // the client may still wait for answers
			return
		}
		if err != nil {
			return
		}
		next := upstreamRequest{response: &pb.QueuesUpstreamResponse{RefRequestID: request.RequestID}}
		if len(request.Messages) == 0 {
			next.response.IsError, next.response.Error = true, errNoMessages.Error()
		} else if next.sending, err = s.queues.submit(ctx, request.Messages); err != nil {
			return
		}
		next.lost = s.queues.quirks.loses(len(request.Messages))
		requests <- next
	}
}

// answer sends the response once the messages are durable. A failure ends the
// stream, which its reader learns too.
func (r upstreamRequest) answer(ctx context.Context, stream pb.Kubemq_QueuesUpstreamServer) {
	if r.sending != nil {
		results, err := r.sending.wait(ctx)
		if err != nil {
			return
		}
		r.response.Results = results
	}
	if !r.lost {
		_ = stream.Send(r.response)
	}
}

// SendQueueMessage stores one message.
func (s *service) SendQueueMessage(ctx context.Context, message *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	results, err := s.queues.send(ctx, []*pb.QueueMessage{message})
	if err != nil {
		return nil, unavailable(err)
	}
	return results[0], nil
}

// SendQueueMessagesBatch stores messages for any queues. Invalid ones are
// refused in their results, the rest is sent.
func (s *service) SendQueueMessagesBatch(ctx context.Context, batch *pb.QueueMessagesBatchRequest) (*pb.QueueMessagesBatchResponse, error) {
	if len(batch.Messages) == 0 {
		return nil, errBatchEmpty // gRPC makes it status Unknown, as the original does
	}
	sending, err := s.queues.submit(ctx, batch.Messages)
	if err != nil {
		return nil, unavailable(err)
	}
	results, err := sending.wait(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return &pb.QueueMessagesBatchResponse{
		BatchID: batch.BatchID,
		Results: results,
		// As with the original: failures of the store only, not refusals.
		HaveErrors: sending.commit.failed() != nil,
	}, nil
}
