package broker

import (
	"context"
	"errors"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// Texts of commands and queries, word for word.
var (
	errTimeoutValue = errors.New("Error 109: invalid set timeout value, cannot be 0 or negative")
	errRequestEmpty = errors.New("Error 115: invalid request, cannot be empty")
	errCacheTTL     = errors.New("Error 116: invalid cache ttl value, cannot be 0 or negative")
	errRequestID    = errors.New("Error 117: invalid request id, cannot be empty")
	errRequestType  = errors.New("Error 206: invalid request type")
	errNoResponse   = errors.New("Error 301: timeout for request message")
)

// request hands a command or query to whoever is subscribed now and waits for the
// first response. Without one it fails with Error 301 when the request's Timeout,
// in milliseconds, is over, also if nobody is subscribed.
//
// A query with a CacheKey is answered from the cache if an equal one, of this
// channel and key, was executed within its CacheTTL.
func (s *service) request(ctx context.Context, request *pb.Request) (*pb.Response, error) {
	if err := validateRequest(request); err != nil {
		return nil, internal(err)
	}
	request.RequestID = orNewID(request.RequestID)
	cached := request.RequestTypeData == pb.Request_Query && request.CacheKey != ""
	key := cacheKey{channel: request.Channel, key: request.CacheKey}
	if cached {
		if response := s.cache.get(key, time.Now()); response != nil {
			response.RequestID = request.RequestID
			return response, nil
		}
	}
	response, err := s.requests.ask(ctx, request)
	if err != nil {
		return nil, err
	}
	if request.RequestTypeData == pb.Request_Command {
		response.Metadata, response.Body = "", nil // as with the original
	}
	if cached && response.Executed {
		s.cache.put(key, response, time.Now().Add(milliseconds(request.CacheTTL)))
	}
	return response, nil
}

// SubscribeToRequests sends commands or queries to a responder until it goes.
// Each goes to every subscriber without a group and to one of each group.
func (s *service) SubscribeToRequests(request *pb.Subscribe, stream pb.Kubemq_SubscribeToRequestsServer) error {
	channel, err := requestsChannel(request)
	if err != nil {
		return internal(err)
	}
	r := s.requests.subscribe(channel, request.Group)
	defer s.requests.unsubscribe(r)
	// As for events: the headers tell that the subscription is active.
	if stream.SendHeader(nil) != nil {
		return errStreamEnded
	}
	for {
		select {
		case next := <-r.requests:
			r.taken(next)
			if !next.deadline.After(time.Now()) {
				continue // its sender was told that nobody did it
			}
			if stream.Send(next.request) != nil {
				return errStreamEnded
			}
		case <-stream.Context().Done():
			return errStreamEnded
		}
	}
}

// SendResponse answers a request by its ReplyChannel. What comes too late, or
// after another's response, is dropped without an error, as with the original.
func (s *service) SendResponse(_ context.Context, response *pb.Response) (*pb.Empty, error) {
	if err := validateResponse(response); err != nil {
		return nil, internal(err)
	}
	s.requests.answer(response)
	return &pb.Empty{}, nil
}

func validateRequest(request *pb.Request) error {
	switch request.RequestTypeData {
	case pb.Request_Command, pb.Request_Query:
	default:
		return errRequestType
	}
	if request.ClientID == "" {
		return errClientID
	}
	if err := validateEventChannel(request.Channel, false); err != nil {
		return err
	}
	if request.Metadata == "" && len(request.Body) == 0 {
		return errRequestEmpty
	}
	if request.Timeout <= 0 {
		return errTimeoutValue
	}
	if request.RequestTypeData == pb.Request_Query && request.CacheKey != "" && request.CacheTTL <= 0 {
		return errCacheTTL
	}
	return nil
}

// requestsChannel checks a subscription and tells what it is for. Wildcards are
// allowed, as for events.
func requestsChannel(request *pb.Subscribe) (channelKey, error) {
	key := channelKey{name: request.Channel}
	switch request.SubscribeTypeData {
	case pb.Subscribe_Commands:
		key.kind = kindCommands
	case pb.Subscribe_Queries:
		key.kind = kindQueries
	default:
		return key, errSubscribeType
	}
	if request.ClientID == "" {
		return key, errClientID
	}
	return key, validateEventChannel(request.Channel, true)
}

func validateResponse(response *pb.Response) error {
	if response.ClientID == "" {
		return errClientID
	}
	if response.RequestID == "" {
		return errRequestID
	}
	return validateEventChannel(response.ReplyChannel, false)
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
