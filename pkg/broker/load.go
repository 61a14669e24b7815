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
	for _, m := range messages {
		payload, err := qs.store.payload(m.id)
		if errors.Is(err, errNotStored) {
			continue
		}
		if err != nil {
			return nil, nil, err
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
