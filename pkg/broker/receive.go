package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	pb "github.com/kubemq-io/protobuf/go"
)

// ReceiveQueueMessages takes messages and acks them before it answers, or with
// IsPeak only shows them. It answers as soon as it has any.
func (s *service) ReceiveQueueMessages(ctx context.Context, request *pb.ReceiveQueueMessagesRequest) (*pb.ReceiveQueueMessagesResponse, error) {
	response := &pb.ReceiveQueueMessagesResponse{RequestID: orNewID(request.RequestID), IsPeak: request.IsPeak}
	err := s.receive(ctx, request, response)
	return response, inside(err, &response.IsError, &response.Error)
}

func (s *service) receive(ctx context.Context, request *pb.ReceiveQueueMessagesRequest, response *pb.ReceiveQueueMessagesResponse) error {
	claim, err := s.pull(ctx, request)
	if err != nil {
		return err
	}
	claim.await(ctx)
	messages, deliveries, err := s.queues.load(claim.messages)
	switch {
	case request.IsPeak:
	case err != nil || ctx.Err() != nil:
		s.queues.release(inFlight(claim.messages))
		return cmp.Or(unavailable(ctx.Err()), err)
	default:
		if err := s.queues.ack(deliveries).wait(ctx); err != nil {
			return unavailable(err)
		}
	}
	response.Messages = messages
	response.MessagesReceived = int32(len(messages))
	response.MessagesExpired = int32(claim.expired)
	return err
}

func (s *service) pull(ctx context.Context, request *pb.ReceiveQueueMessagesRequest) (*claim, error) {
	if err := validatePull(request); err != nil {
		return nil, err
	}
	wait := seconds(request.WaitTimeSeconds)
	if wait == 0 {
		wait = time.Second
	}
	return s.queues.lineUp(ctx, want{
		queue: request.Channel,
		max:   int(request.MaxNumberOfMessages),
		wait:  wait,
		peek:  request.IsPeak,
	})
}

// AckAllQueueMessages removes everything that is ready. It does not wait for
// more: the original blocks for the whole WaitTimeSeconds.
func (s *service) AckAllQueueMessages(ctx context.Context, request *pb.AckAllQueueMessagesRequest) (*pb.AckAllQueueMessagesResponse, error) {
	response := &pb.AckAllQueueMessagesResponse{RequestID: orNewID(request.RequestID)}
	err := validateAckAll(request)
	if err == nil {
		response.AffectedMessages, err = s.queues.ackReady(ctx, request.Channel)
	}
	return response, inside(err, &response.IsError, &response.Error)
}

func orNewID(id string) string {
	if id != "" {
		return id
	}
	return uuid.NewString()
}
