package broker

import (
	"strconv"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

func TestAQueryIsAnsweredFromTheCache(t *testing.T) {
	c := startBroker(t, Config{})
	stream := c.respond(pb.Subscribe_Queries, "ch", "")
	ask := func(channel, key string, ttl int32) <-chan asked {
		q := query(channel, "x")
		q.CacheKey, q.CacheTTL = key, ttl
		return c.ask(q)
	}
	outcome := ask("ch", "k", 3_600_000)
	c.answer(stream, "first")
	got := <-outcome
	require.NoError(t, got.err)
	require.False(t, got.response.CacheHit)
	require.Equal(t, "first", string(got.response.Body))

	hit := <-ask("ch", "k", 1) // nobody answers
	require.NoError(t, hit.err)
	require.True(t, hit.response.CacheHit)
	require.True(t, hit.response.Executed)
	require.NotEqual(t, got.response.RequestID, hit.response.RequestID)
	require.Equal(t, "first", string(hit.response.Body))
	require.Equal(t, "meta", hit.response.Metadata)
	require.Equal(t, got.response.Tags, hit.response.Tags)
	require.Equal(t, got.response.Timestamp, hit.response.Timestamp)

	outcome = ask("ch", "another key", 1)
	c.answer(stream, "second")
	require.Equal(t, "second", string((<-outcome).response.Body))
	outcome = c.ask(query("ch", "x")) // no key
	c.answer(stream, "third")
	require.Equal(t, "third", string((<-outcome).response.Body))
}

func TestAFailedQueryIsNotCached(t *testing.T) {
	c := startBroker(t, Config{})
	stream := c.respond(pb.Subscribe_Queries, "ch", "")
	q := query("ch", "x")
	q.CacheKey, q.CacheTTL = "k", 3_600_000
	outcome := c.ask(q)
	received, err := stream.Recv()
	require.NoError(t, err)
	_, err = c.SendResponse(t.Context(), &pb.Response{ClientID: "r", RequestID: "r", ReplyChannel: received.ReplyChannel, Error: "no"})
	require.NoError(t, err)
	require.Equal(t, "no", (<-outcome).response.Error)
	outcome = c.ask(q)
	c.answer(stream, "yes")
	require.Equal(t, "yes", string((<-outcome).response.Body))
}

func TestCachedResponsesExpire(t *testing.T) {
	c, now := newRequestCache(), time.Now()
	key := cacheKey{"ch", "k"}
	c.put(key, &pb.Response{Metadata: "a"}, now.Add(time.Second))
	require.NotNil(t, c.get(key, now))
	require.Nil(t, c.get(cacheKey{"other", "k"}, now))
	require.Nil(t, c.get(key, now.Add(time.Second)))
	require.Empty(t, c.entries)
	require.Zero(t, c.recent.Len())
	require.Zero(t, c.bytes)
}

func TestTheCacheIsBounded(t *testing.T) {
	c, now := newRequestCache(), time.Now()
	until := now.Add(time.Hour)
	key := func(i int) cacheKey { return cacheKey{"ch", strconv.Itoa(i)} }
	for i := range maxCachedResponses {
		c.put(key(i), &pb.Response{}, until)
	}
	require.NotNil(t, c.get(key(0), now)) // used: the next oldest goes
	c.put(key(maxCachedResponses), &pb.Response{}, until)
	require.Len(t, c.entries, maxCachedResponses)
	require.NotNil(t, c.get(key(0), now))
	require.Nil(t, c.get(key(1), now))

	c.put(key(0), &pb.Response{Body: make([]byte, maxCachedBytes/2)}, until)
	c.put(key(1), &pb.Response{Body: make([]byte, maxCachedBytes/2)}, until)
	require.NotNil(t, c.get(key(1), now))
	require.Nil(t, c.get(key(0), now))
	require.LessOrEqual(t, c.bytes, maxCachedBytes)

	c.put(key(1), &pb.Response{Body: make([]byte, maxCachedBytes)}, until)
	require.Nil(t, c.get(key(1), now), "neither the old one nor one larger than the cache")
	require.Len(t, c.entries, c.recent.Len())
}
