package broker

import (
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// maxSubscriberEvents and maxSubscriberBytes bound what waits for one slow
	// subscriber. What comes beyond is dropped for it: events are fire and
	// forget, and one subscriber must not slow the publishers of all.
	maxSubscriberEvents = 1024
	maxSubscriberBytes  = 64 << 20
)

// events hands published events to subscribers.
type events struct {
	mu    sync.Mutex
	exact map[string]*eventChannel
	wild  map[*subscription]struct{} // those whose channel has wildcards
}

// eventChannel is a channel that somebody subscribed to by its name.
type eventChannel struct {
	subscriptions    map[*subscription]struct{}
	messages, volume int64 // published since the first subscription
}

// subscription is one subscriber.
type subscription struct {
	channel string
	group   string
	events  chan *pb.EventReceive
	waiting atomic.Int64 // bytes in events
}

func newEvents() *events {
	return &events{exact: make(map[string]*eventChannel), wild: make(map[*subscription]struct{})}
}

// subscribe starts to collect events. Subscribers of one group share them.
func (e *events) subscribe(channel, group string) *subscription {
	s := &subscription{channel: channel, group: group, events: make(chan *pb.EventReceive, maxSubscriberEvents)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if isWildcard(channel) {
		e.wild[s] = struct{}{}
		return s
	}
	c := e.exact[channel]
	if c == nil {
		c = &eventChannel{subscriptions: make(map[*subscription]struct{})}
		e.exact[channel] = c
	}
	c.subscriptions[s] = struct{}{}
	return s
}

func (e *events) unsubscribe(s *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.wild, s)
	if c := e.exact[s.channel]; c != nil {
		delete(c.subscriptions, s)
		if len(c.subscriptions) == 0 {
			delete(e.exact, s.channel)
		}
	}
}

// publish hands a valid event to every subscriber without a group and to one of
// each group. Events of one publisher stay in order.
func (e *events) publish(event *pb.Event) {
	if event.EventID == "" {
		event.EventID = rand.Text()
	}
	received := &pb.EventReceive{
		EventID:  event.EventID,
		Channel:  event.Channel,
		Metadata: event.Metadata,
		Body:     event.Body,
		Tags:     event.Tags,
	}
	size := int64(received.Size())
	e.mu.Lock()
	defer e.mu.Unlock()
	groups := make(map[string]*subscription)
	for _, s := range e.matching(event.Channel, size) {
		if s.group == "" {
			s.offer(received, size)
		} else if chosen := groups[s.group]; chosen == nil || len(s.events) < len(chosen.events) {
			groups[s.group] = s
		}
	}
	for _, s := range groups {
		s.offer(received, size)
	}
}

// matching lists the subscriptions of a channel in random order, so that equally
// busy members of a group take turns.
func (e *events) matching(channel string, size int64) []*subscription {
	var found []*subscription
	if c := e.exact[channel]; c != nil {
		c.messages++
		c.volume += size
		for s := range c.subscriptions {
			found = append(found, s)
		}
	}
	for s := range e.wild {
		if matches(s.channel, channel) {
			found = append(found, s)
		}
	}
	return found
}

// offer queues an event for the subscriber, or drops it if too much is waiting.
func (s *subscription) offer(event *pb.EventReceive, size int64) {
	if waiting := s.waiting.Load(); waiting > 0 && waiting+size > maxSubscriberBytes {
		return
	}
	select {
	case s.events <- event:
		s.waiting.Add(size)
	default:
	}
}

// taken notes that the subscriber's stream took an event out of events.
func (s *subscription) taken(event *pb.EventReceive) { s.waiting.Add(-int64(event.Size())) }

func isWildcard(channel string) bool { return strings.ContainsAny(channel, "*>") }

// matches compares token by token: "*" stands for one, ">" at the end for one or
// more.
func matches(pattern, channel string) bool {
	for {
		want, restWanted, moreWanted := strings.Cut(pattern, ".")
		have, rest, more := strings.Cut(channel, ".")
		switch {
		case want == ">" && !moreWanted:
			return true
		case want != "*" && want != have:
			return false
		case !more || !moreWanted:
			return more == moreWanted
		}
		pattern, channel = restWanted, rest
	}
}
