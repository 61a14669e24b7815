package broker

import (
	"errors"

	pb "github.com/kubemq-io/protobuf/go"
)

// errNotStored is what a store returns for a message it does not have.
var errNotStored = errors.New("broker: message is not stored")

// load reads the payloads of messages that are in flight for the caller, or that
// it peeked at. Messages whose queue was deleted meanwhile are left out.
func (qs *queues) load(messages []*message) ([]*pb.QueueMessage, []*delivery, error) {
	loaded := make([]*pb.QueueMessage, 0, len(messages))
	deliveries := make([]*delivery, 0, len(messages))
	ids := make([]uint64, len(messages))
	for i, m := range messages {
		ids[i] = m.id
	}
	payloads, err := qs.store.payloads(ids)
	if err != nil {
		return nil, nil, err
	}
	for i, m := range messages {
		payload := payloads[i]
		if payload == nil {
			continue
		}
		deliveries = append(deliveries, &delivery{
			message:  m,
			policy:   payload.Policy,
			rerouted: payload.GetAttributes().GetReRouted(),
		})
		loaded = append(loaded, m.deliver(payload))
	}
	return loaded, deliveries, nil
}

// inFlight wraps messages that go back unread.
func inFlight(messages []*message) []*delivery {
	deliveries := make([]*delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = &delivery{message: m}
	}
	return deliveries
}
