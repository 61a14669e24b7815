package broker

import (
	"container/list"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// maxCachedResponses and maxCachedBytes bound the cache; what was used least
	// recently makes room.
	maxCachedResponses = 10_000
	maxCachedBytes     = 64 << 20
	// cachedOverhead is about what an entry takes besides its response.
	cachedOverhead = 512
)

// requestCache keeps the responses to queries that have a CacheKey, in memory
// only. A CacheTTL is in milliseconds, as KubeMQ's Go SDK sends it; the Python
// SDK, which puts seconds there, gets a shorter time than it asked for, never an
// answer that is too old.
type requestCache struct {
	mu      sync.Mutex
	entries map[cacheKey]*list.Element // of *cachedResponse
	recent  *list.List                 // of *cachedResponse, most recently used first
	bytes   int
}

// cacheKey names an entry: the same key on another channel is another query.
type cacheKey struct{ channel, key string }

type cachedResponse struct {
	key      cacheKey
	response *pb.Response
	size     int
	until    time.Time
}

func newRequestCache() *requestCache {
	return &requestCache{entries: make(map[cacheKey]*list.Element), recent: list.New()}
}

// get returns a copy to complete, or nil. What it shares with the cached one
// (Body, Tags, Span) is never changed.
func (c *requestCache) get(key cacheKey, now time.Time) *pb.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		return nil
	}
	entry := cached(e)
	if !entry.until.After(now) {
		c.remove(e)
		return nil
	}
	c.recent.MoveToFront(e)
	return &pb.Response{
		ClientID:  entry.response.ClientID,
		Metadata:  entry.response.Metadata,
		Body:      entry.response.Body,
		CacheHit:  true,
		Timestamp: entry.response.Timestamp,
		Executed:  true,
		Span:      entry.response.Span,
		Tags:      entry.response.Tags,
	}
}

// put keeps a response until then, unless it is larger than the whole cache.
func (c *requestCache) put(key cacheKey, response *pb.Response, until time.Time) {
	entry := &cachedResponse{key: key, response: response, until: until}
	entry.size = cachedOverhead + response.Size() + len(key.channel) + len(key.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[key]; old != nil {
		c.remove(old)
	}
	if entry.size > maxCachedBytes {
		return
	}
	for len(c.entries) >= maxCachedResponses || c.bytes+entry.size > maxCachedBytes {
		c.remove(c.recent.Back())
	}
	c.entries[key] = c.recent.PushFront(entry)
	c.bytes += entry.size
}

func (c *requestCache) remove(e *list.Element) {
	entry := cached(e)
	c.recent.Remove(e)
	delete(c.entries, entry.key)
	c.bytes -= entry.size
}

func cached(e *list.Element) *cachedResponse {
	return e.Value.(*cachedResponse) //nolint:forcetypeassert // the list holds nothing else
}
