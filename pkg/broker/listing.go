package broker

import (
	"slices"
	"strings"
	"time"
)

// listedChannel is one element of the answer to list-channels. Clients need all
// numbers, as integers: KubeMQ's Python client raises on a missing one, its Go
// client on a fraction.
type listedChannel struct {
	Name         string `json:"name"`
	Type         string `json:"type"`
	LastActivity int64  `json:"lastActivity"` // unix seconds
	IsActive     bool   `json:"isActive"`
	Incoming     any    `json:"incoming"`
	Outgoing     any    `json:"outgoing"`
}

type queueTraffic struct {
	Messages int64 `json:"messages"`
	Volume   int64 `json:"volume"`
	Waiting  int64 `json:"waiting"`
	Expired  int64 `json:"expired"`
	Delayed  int64 `json:"delayed"`
}

type eventTraffic struct {
	Messages int64 `json:"messages"`
	Volume   int64 `json:"volume"`
}

type requestTraffic struct {
	Messages  int64 `json:"messages"`
	Volume    int64 `json:"volume"`
	Responses int64 `json:"responses"`
}

// activeTime is how long after its last use a queue counts as active.
const activeTime = time.Minute

// maxListed bounds one answer, so that clients with the default receive limit of
// gRPC (4 MiB) can read it: names have up to 255 bytes.
const maxListed = 5_000

// listChannels lists the channels of a kind whose name contains search: first the
// one that is called so, which is what clients look for, then by name. It is never
// nil: clients need a JSON array.
func (s *service) listChannels(kind, search string) []listedChannel {
	list := []listedChannel{}
	add := func(c listedChannel) {
		if strings.Contains(c.Name, search) {
			c.Type = kind
			list = append(list, c)
		}
	}
	switch kind {
	case kindQueues:
		s.queues.listQueues(search, add)
	case kindEvents:
		s.queues.listCreated(kind, eventTraffic{}, s.events.list(add), add)
	case kindEventsStore:
		s.queues.listCreated(kind, eventTraffic{}, nil, add)
	default:
		s.queues.listCreated(kind, requestTraffic{}, s.requests.list(kind, add), add)
	}
	slices.SortFunc(list, func(a, b listedChannel) int {
		if (a.Name == search) != (b.Name == search) {
			if a.Name == search {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list[:min(len(list), maxListed)]
}

// listQueues looks at the names first: there may be very many result queues, and
// every other call waits meanwhile.
func (qs *queues) listQueues(search string, add func(listedChannel)) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now().UnixNano()
	for _, q := range qs.byName {
		if !strings.Contains(q.name, search) {
			continue
		}
		add(listedChannel{
			Name:         q.name,
			LastActivity: q.active / int64(time.Second),
			IsActive:     now-q.active < int64(activeTime),
			Incoming: queueTraffic{
				Messages: int64(q.lastSeq),
				Volume:   q.counters.sentBytes,
				Waiting:  q.waiting(),
				Expired:  q.counters.expired,
				Delayed:  int64(q.delayed),
			},
			Outgoing: queueTraffic{
				Messages: q.counters.delivered,
				Volume:   q.counters.deliveredBytes,
			},
		})
	}
}

// listCreated lists created channels of a kind that has nothing else to tell,
// except those listed already.
func (qs *queues) listCreated(kind string, traffic any, listed map[string]bool, add func(listedChannel)) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for key := range qs.channels {
		if key.kind == kind && !listed[key.name] {
			add(listedChannel{Name: key.name, Incoming: traffic, Outgoing: traffic})
		}
	}
}

// list lists the channels that have subscribers, and returns their names.
func (e *events) list(add func(listedChannel)) map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make(map[string]bool, len(e.exact))
	now := time.Now().Unix()
	for name, c := range e.exact {
		traffic := eventTraffic{Messages: c.messages, Volume: c.volume}
		add(listedChannel{Name: name, LastActivity: now, IsActive: true, Incoming: traffic, Outgoing: traffic})
		names[name] = true
	}
	return names
}
