package broker

import (
	"context"
	"errors"
	"io"

	pb "github.com/kubemq-io/protobuf/go"
)

// SendEvent hands an event to whoever is subscribed now; it succeeds also when
// nobody is.
func (s *service) SendEvent(_ context.Context, event *pb.Event) (*pb.Result, error) {
	if err := validateEvent(event); err != nil {
		return nil, internal(err)
	}
	if event.Store {
		return nil, unsupported("the events store")
	}
	s.events.publish(event)
	return &pb.Result{EventID: event.EventID, Sent: true}, nil
}

// SendEventsStream is SendEvent for many. Only events that fail are answered.
func (s *service) SendEventsStream(stream pb.Kubemq_SendEventsStreamServer) error {
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errStreamEnded
		}
		err = validateEvent(event)
		if err == nil && event.Store {
			err = unsupported("the events store")
		}
		if err == nil {
			s.events.publish(event)
			continue
		}
		if stream.Send(&pb.Result{EventID: event.EventID, Error: err.Error()}) != nil {
			return errStreamEnded
		}
	}
}

// SubscribeToEvents sends events to a subscriber until it goes.
func (s *service) SubscribeToEvents(request *pb.Subscribe, stream pb.Kubemq_SubscribeToEventsServer) error {
	if err := validateSubscribe(request); err != nil {
		return err
	}
	subscription := s.events.subscribe(request.Channel, request.Group)
	defer s.events.unsubscribe(subscription)
	// The response headers tell clients that look for them that the subscription
	// is active; the protocol has nothing else that does.
	if stream.SendHeader(nil) != nil {
		return errStreamEnded
	}
	for {
		select {
		case event := <-subscription.events:
			subscription.taken(event)
			if stream.Send(event) != nil {
				return errStreamEnded
			}
		case <-stream.Context().Done():
			return errStreamEnded
		}
	}
}

func validateSubscribe(request *pb.Subscribe) error {
	switch request.SubscribeTypeData {
	case pb.Subscribe_Events:
	case pb.Subscribe_EventsStore:
		return unsupported("the events store")
	default:
		return internal(errSubscribeType)
	}
	if request.ClientID == "" {
		return internal(errClientID)
	}
	if err := validateEventChannel(request.Channel, true); err != nil {
		return internal(err)
	}
	if request.EventsStoreTypeData != 0 {
		return internal(errStartType)
	}
	return nil
}
