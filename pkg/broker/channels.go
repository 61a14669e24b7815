package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// internalChannel is where clients send queries that create, list and delete
// channels.
const internalChannel = "kubemq.cluster.internal.requests"

// Channel types, as the internal channel names them.
const (
	kindQueues      = "queues"
	kindEvents      = "events"
	kindEventsStore = "events_store"
	kindCommands    = "commands"
	kindQueries     = "queries"
)

// SendRequest answers the internal channel, and brings commands and queries on
// other channels to their responders.
func (s *service) SendRequest(ctx context.Context, request *pb.Request) (*pb.Response, error) {
	if request.Channel != internalChannel || s.queues.quirks.NoInternalChannel {
		return s.request(ctx, request)
	}
	if request.ClientID == "" {
		return nil, internal(errClientID)
	}
	response := &pb.Response{
		ClientID:     request.ClientID,
		RequestID:    request.RequestID,
		ReplyChannel: request.ReplyChannel,
		Timestamp:    time.Now().UnixNano(),
		Executed:     true,
	}
	body, err := s.manageChannels(ctx, request)
	if err != nil {
		response.Executed, response.Error = false, err.Error()
	}
	response.Body = body
	return response, nil
}

// manageChannels executes the command in the request's Metadata, whose arguments
// are the Tags.
func (s *service) manageChannels(ctx context.Context, request *pb.Request) ([]byte, error) {
	key := channelKey{kind: request.Tags["channel_type"], name: request.Tags["channel"]}
	switch key.kind {
	case kindQueues, kindEvents, kindEventsStore, kindCommands, kindQueries:
	default:
		return nil, fmt.Errorf("broker: unknown channel type %q", key.kind)
	}
	switch request.Metadata {
	case "create-channel":
		if err := validateChannel(key); err != nil {
			return nil, err
		}
		return nil, s.queues.createChannel(ctx, key)
	case "delete-channel":
		if err := validateChannel(key); err != nil {
			return nil, err
		}
		return nil, s.queues.deleteChannel(key).wait(ctx)
	case "list-channels":
		return json.Marshal(s.listChannels(key.kind, request.Tags["channel_search"]))
	default:
		return nil, fmt.Errorf("broker: unknown channel command %q", request.Metadata)
	}
}

func validateChannel(key channelKey) error {
	if key.kind == kindQueues {
		return validateQueueName(key.name)
	}
	return validateEventChannel(key.name, false)
}

// createChannel makes a channel that is listed, and stays, while it is unused.
func (qs *queues) createChannel(ctx context.Context, key channelKey) error {
	c, err := qs.addChannel(key)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

func (qs *queues) addChannel(key channelKey) (*commit, error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if _, known := qs.channels[key]; known {
		return qs.journal.add(nil, nil), nil
	}
	if len(qs.channels) >= qs.config.MaxQueues {
		return nil, &limitError{what: "channels", limit: qs.config.MaxQueues}
	}
	if key.kind == kindQueues {
		q, err := qs.queue(key.name)
		if err != nil {
			return nil, err
		}
		q.created = true
		qs.touch(q)
	}
	qs.channels[key] = struct{}{}
	return qs.journal.add([]mutation{{create: &key}}, nil), nil
}

// deleteChannel removes a channel, a queue with all its messages. What does not
// exist counts as deleted.
func (qs *queues) deleteChannel(key channelKey) *commit {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	mutations := []mutation{{drop: &key}}
	delete(qs.channels, key)
	if q := qs.byName[key.name]; q != nil && key.kind == kindQueues {
		mutations = append(mutations, qs.empty(q)...)
	}
	return qs.journal.add(mutations, nil)
}
