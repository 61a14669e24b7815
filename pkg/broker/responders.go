package broker

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// maxResponderRequests and maxResponderBytes bound what waits for one slow
	// responder.
	maxResponderRequests = 1024
	maxResponderBytes    = 64 << 20
	// maxRequestBytes bounds the requests that wait for a response together.
	maxRequestBytes = 256 << 20
)

// requests brings commands and queries to responders and their responses back.
type requests struct {
	config Config

	mu      sync.Mutex
	exact   map[channelKey]*requestChannel
	wild    map[*responder]struct{}    // those whose channel has wildcards
	pending map[string]*pendingRequest // by ReplyChannel
	bytes   int64                      // of the pending ones
}

// requestChannel is a channel that somebody subscribed to by its name.
type requestChannel struct {
	responders map[*responder]struct{}
	traffic    requestTraffic // since the first subscription
}

// responder is one subscriber.
type responder struct {
	channel  channelKey
	group    string
	requests chan offeredRequest
	waiting  atomic.Int64 // bytes in requests
}

// offeredRequest is a request that a responder has not been sent yet.
type offeredRequest struct {
	request  *pb.Request
	size     int64
	deadline time.Time
}

// pendingRequest is a request that waits for its response.
type pendingRequest struct {
	reply    string
	size     int64
	channel  *requestChannel   // nil if nobody subscribed to it by its name
	response chan *pb.Response // capacity 1: the first one
}

func newRequests(config Config) *requests {
	return &requests{
		config:  config,
		exact:   make(map[channelKey]*requestChannel),
		wild:    make(map[*responder]struct{}),
		pending: make(map[string]*pendingRequest),
	}
}

func (r *requests) subscribe(channel channelKey, group string) *responder {
	s := &responder{channel: channel, group: group, requests: make(chan offeredRequest, maxResponderRequests)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isWildcard(channel.name) {
		r.wild[s] = struct{}{}
		return s
	}
	c := r.exact[channel]
	if c == nil {
		c = &requestChannel{responders: make(map[*responder]struct{})}
		r.exact[channel] = c
	}
	c.responders[s] = struct{}{}
	return s
}

func (r *requests) unsubscribe(s *responder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wild, s)
	if c := r.exact[s.channel]; c != nil {
		delete(c.responders, s)
		if len(c.responders) == 0 {
			delete(r.exact, s.channel)
		}
	}
}

// ask sends a valid request and waits for the first response to it.
func (r *requests) ask(ctx context.Context, request *pb.Request) (*pb.Response, error) {
	timer := time.NewTimer(milliseconds(request.Timeout))
	defer timer.Stop()
	p, err := r.dispatch(request)
	if err != nil {
		return nil, internal(err)
	}
	defer r.forget(p)
	select {
	case response := <-p.response:
		response.RequestID = request.RequestID
		return response, nil
	case <-timer.C:
		return nil, internal(errNoResponse)
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
}

// dispatch hands a request to its responders. The reply channel is a new name
// that only they learn, so nobody else can answer.
func (r *requests) dispatch(request *pb.Request) (*pendingRequest, error) {
	offered := offeredRequest{
		request: &pb.Request{
			RequestID:       request.RequestID,
			RequestTypeData: request.RequestTypeData,
			ClientID:        request.ClientID,
			Channel:         request.Channel,
			Metadata:        request.Metadata,
			Body:            request.Body,
			ReplyChannel:    rand.Text(),
			Timeout:         request.Timeout,
			CacheKey:        request.CacheKey,
			CacheTTL:        request.CacheTTL,
			Span:            request.Span,
			Tags:            request.Tags,
		},
		deadline: time.Now().Add(milliseconds(request.Timeout)),
	}
	offered.size = int64(offered.request.Size())
	if offered.size > int64(r.config.MaxMessageBytes) {
		return nil, errPayloadTooBig // it came, but would end the responder's stream
	}
	p := &pendingRequest{reply: offered.request.ReplyChannel, size: offered.size, response: make(chan *pb.Response, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= r.config.MaxWaiting {
		return nil, &limitError{what: "unanswered requests", limit: r.config.MaxWaiting}
	}
	if r.bytes > 0 && r.bytes+p.size > maxRequestBytes {
		return nil, &limitError{what: "bytes of unanswered requests", limit: maxRequestBytes}
	}
	if !r.offer(p, offered) {
		return nil, &limitError{what: "requests that wait for a responder", limit: maxResponderRequests}
	}
	r.pending[p.reply] = p
	r.bytes += p.size
	return p, nil
}

// offer reports false if there are responders and none has room.
func (r *requests) offer(p *pendingRequest, offered offeredRequest) bool {
	key := channelKey{kind: kindQueries, name: offered.request.Channel}
	if offered.request.RequestTypeData == pb.Request_Command {
		key.kind = kindCommands
	}
	if p.channel = r.exact[key]; p.channel != nil {
		p.channel.traffic.Messages++
		p.channel.traffic.Volume += p.size
	}
	found, taken := r.matching(key, p.channel), false
	groups := make(map[string]*responder)
	for _, s := range found {
		if s.group == "" {
			taken = s.offer(offered) || taken
		} else if chosen := groups[s.group]; chosen == nil || len(s.requests) < len(chosen.requests) {
			groups[s.group] = s
		}
	}
	for _, s := range groups {
		taken = s.offer(offered) || taken
	}
	return taken || len(found) == 0
}

// matching lists the responders of a channel in random order, so that equally
// busy members of a group take turns.
func (r *requests) matching(key channelKey, c *requestChannel) []*responder {
	var found []*responder
	if c != nil {
		for s := range c.responders {
			found = append(found, s)
		}
	}
	for s := range r.wild {
		if s.channel.kind == key.kind && matches(s.channel.name, key.name) {
			found = append(found, s)
		}
	}
	return found
}

// offer reports whether the responder has room for a request.
func (s *responder) offer(offered offeredRequest) bool {
	if waiting := s.waiting.Load(); waiting > 0 && waiting+offered.size > maxResponderBytes {
		return false
	}
	select {
	case s.requests <- offered:
		s.waiting.Add(offered.size)
		return true
	default:
		return false
	}
}

// taken notes that the responder's stream took a request out of requests.
func (s *responder) taken(offered offeredRequest) { s.waiting.Add(-offered.size) }

// answer hands a response to the request it is for, if that still waits.
func (r *requests) answer(response *pb.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending[response.ReplyChannel]
	if p == nil {
		return
	}
	r.remove(p)
	if p.channel != nil {
		p.channel.traffic.Responses++
	}
	p.response <- response
}

// forget ends the wait for a response.
func (r *requests) forget(p *pendingRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

func (r *requests) remove(p *pendingRequest) {
	if r.pending[p.reply] == p {
		delete(r.pending, p.reply)
		r.bytes -= p.size
	}
}

// list lists the channels of a kind that have responders, and returns their
// names.
func (r *requests) list(kind string, add func(listedChannel)) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make(map[string]bool)
	now := time.Now().Unix()
	for key, c := range r.exact {
		if key.kind == kind {
			add(listedChannel{Name: key.name, LastActivity: now, IsActive: true, Incoming: c.traffic, Outgoing: c.traffic})
			names[key.name] = true
		}
	}
	return names
}
