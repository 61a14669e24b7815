package broker

import (
	"context"
	"strconv"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func request(kind pb.Request_RequestType, channel, body string) *pb.Request {
	return &pb.Request{RequestTypeData: kind, ClientID: "test", Channel: channel, Body: []byte(body), Timeout: 10_000}
}

func command(body string) *pb.Request        { return request(pb.Request_Command, "ch", body) }
func query(channel, body string) *pb.Request { return request(pb.Request_Query, channel, body) }

// respond returns when the subscription is active.
func (c *client) respond(kind pb.Subscribe_SubscribeType, channel, group string) pb.Kubemq_SubscribeToRequestsClient {
	c.t.Helper()
	stream, err := c.SubscribeToRequests(c.t.Context(), &pb.Subscribe{
		SubscribeTypeData: kind, ClientID: "responder", Channel: channel, Group: group,
	})
	require.NoError(c.t, err)
	_, err = stream.Header()
	require.NoError(c.t, err)
	return stream
}

// asked is the outcome of a request.
type asked struct {
	response *pb.Response
	err      error
}

// ask sends a request in the background.
func (c *client) ask(request *pb.Request) <-chan asked {
	done := make(chan asked, 1)
	go func() {
		response, err := c.SendRequest(c.t.Context(), request)
		done <- asked{response, err}
	}()
	return done
}

// answer responds to the next request of a stream and returns that.
func (c *client) answer(stream pb.Kubemq_SubscribeToRequestsClient, body string) *pb.Request {
	c.t.Helper()
	received, err := stream.Recv()
	require.NoError(c.t, err)
	c.sendResponse(received, body)
	return received
}

func (c *client) sendResponse(received *pb.Request, body string) {
	c.t.Helper()
	_, err := c.SendResponse(c.t.Context(), &pb.Response{
		ClientID: "responder", RequestID: received.RequestID, ReplyChannel: received.ReplyChannel,
		Metadata: "meta", Body: []byte(body), Executed: true, Timestamp: 7, Tags: map[string]string{"k": "v"},
	})
	require.NoError(c.t, err)
}

func TestAQueryIsAnswered(t *testing.T) {
	c := startBroker(t, Config{})
	stream := c.respond(pb.Subscribe_Queries, "ch", "")
	sent := query("ch", "question")
	sent.RequestID, sent.Metadata, sent.Tags, sent.Span = "id", "m", map[string]string{"a": "b"}, []byte("span")
	sent.ReplyChannel = "chosen by the client"
	outcome := c.ask(sent)
	received := c.answer(stream, "answer")
	require.NotEmpty(t, received.ReplyChannel)
	require.NotEqual(t, sent.ReplyChannel, received.ReplyChannel)
	require.Equal(t, "id", received.RequestID)
	require.Equal(t, pb.Request_Query, received.RequestTypeData)
	require.Equal(t, "test", received.ClientID)
	require.Equal(t, "ch", received.Channel)
	require.Equal(t, "m", received.Metadata)
	require.Equal(t, "question", string(received.Body))
	require.Equal(t, sent.Tags, received.Tags)
	require.Equal(t, sent.Span, received.Span)
	require.EqualValues(t, 10_000, received.Timeout)

	got := <-outcome
	require.NoError(t, got.err)
	require.Equal(t, "id", got.response.RequestID)
	require.Equal(t, "responder", got.response.ClientID)
	require.Equal(t, "meta", got.response.Metadata)
	require.Equal(t, "answer", string(got.response.Body))
	require.Equal(t, map[string]string{"k": "v"}, got.response.Tags)
	require.True(t, got.response.Executed)
	require.EqualValues(t, 7, got.response.Timestamp)
}

func TestTheAnswerToACommandIsBlanked(t *testing.T) {
	c := startBroker(t, Config{})
	stream := c.respond(pb.Subscribe_Commands, "ch", "")
	queries := c.respond(pb.Subscribe_Queries, "ch", "")
	outcome := c.ask(command("do"))
	require.NotEmpty(t, c.answer(stream, "answer").RequestID)
	got := <-outcome
	require.NoError(t, got.err)
	require.True(t, got.response.Executed)
	require.Empty(t, got.response.Metadata)
	require.Empty(t, got.response.Body)
	require.Equal(t, map[string]string{"k": "v"}, got.response.Tags)

	// The query's subscriber got nothing of it: its first request is a query.
	outcome = c.ask(query("ch", "what"))
	require.Equal(t, "what", string(c.answer(queries, "answer").Body))
	require.NoError(t, (<-outcome).err)
}

func TestAFailureOfTheResponderIsPassedOn(t *testing.T) {
	c := startBroker(t, Config{})
	stream := c.respond(pb.Subscribe_Commands, "ch", "")
	outcome := c.ask(command("do"))
	received, err := stream.Recv()
	require.NoError(t, err)
	_, err = c.SendResponse(t.Context(), &pb.Response{
		ClientID: "r", RequestID: received.RequestID, ReplyChannel: received.ReplyChannel, Error: "no",
	})
	require.NoError(t, err)
	got := <-outcome
	require.NoError(t, got.err)
	require.False(t, got.response.Executed)
	require.Equal(t, "no", got.response.Error)
}

func TestOneOfAGroupGetsARequest(t *testing.T) {
	c := startBroker(t, Config{})
	const n = 50
	seen := make(chan string, 4*n)
	for range 2 {
		member := c.respond(pb.Subscribe_Commands, "ch", "g")
		go func() {
			for {
				received, err := member.Recv()
				if err != nil {
					return
				}
				seen <- string(received.Body)
				c.sendResponse(received, "")
			}
		}()
	}
	for i := range n {
		got := <-c.ask(command(strconv.Itoa(i)))
		require.NoError(t, got.err)
		require.Equal(t, strconv.Itoa(i), <-seen)
	}
	require.Empty(t, seen, "nothing came twice")
}

func TestEveryoneWithoutAGroupGetsARequestAndTheFirstAnswerCounts(t *testing.T) {
	c := startBroker(t, Config{})
	first, second := c.respond(pb.Subscribe_Queries, "a.b", ""), c.respond(pb.Subscribe_Queries, "a.*", "")
	group := c.respond(pb.Subscribe_Queries, ">", "g")
	outcome := c.ask(query("a.b", "x"))
	c.answer(first, "first")
	c.answer(second, "second")
	c.answer(group, "third")
	got := <-outcome
	require.NoError(t, got.err)
	require.Equal(t, "first", string(got.response.Body))
}

func TestARequestWithoutAnAnswerTimesOut(t *testing.T) {
	c := startBroker(t, Config{})
	silent := command("x")
	silent.Timeout = 30
	for _, subscribed := range []bool{false, true} {
		if subscribed {
			c.respond(pb.Subscribe_Commands, "ch", "")
		}
		start := time.Now()
		got := <-c.ask(silent)
		require.Equal(t, codes.Internal, status.Code(got.err))
		require.Equal(t, "Error 301: timeout for request message", status.Convert(got.err).Message())
		require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	}
	// Too late: dropped without an error.
	_, err := c.SendResponse(t.Context(), &pb.Response{ClientID: "r", RequestID: "x", ReplyChannel: "gone"})
	require.NoError(t, err)
}

func TestAGoneClientDoesNotWait(t *testing.T) {
	r := newRequests(Config{}.withDefaults())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.ask(ctx, query("ch", "x"))
	require.Equal(t, codes.Canceled, status.Code(err))
	require.Empty(t, r.pending)
	require.Zero(t, r.bytes)
}

func TestErrorsOfRequestsAreStatusInternal(t *testing.T) {
	c := startBroker(t, Config{})
	change := func(change func(r *pb.Request)) *pb.Request {
		r := query("ch", "x")
		change(r)
		return r
	}
	requests := map[string]*pb.Request{
		"Error 206: invalid request type":                               change(func(r *pb.Request) { r.RequestTypeData = 0 }),
		"Error 101: invalid clientID value, cannot be empty":            change(func(r *pb.Request) { r.ClientID = "" }),
		"Error 102: invalid channel value, cannot be empty":             change(func(r *pb.Request) { r.Channel = "" }),
		"Error 107: invalid channel value, no wildcards are allowed":    change(func(r *pb.Request) { r.Channel = "a.*" }),
		"Error 108: invalid channel value, no white spaces are allowed": change(func(r *pb.Request) { r.Channel = "a b" }),
		"Error 119: invalid channel value, cannot end with `.`":         change(func(r *pb.Request) { r.Channel = "a." }),
		"Error 115: invalid request, cannot be empty":                   change(func(r *pb.Request) { r.Body = nil }),
		"Error 109: invalid set timeout value, cannot be 0 or negative": change(func(r *pb.Request) { r.Timeout = 0 }),
		"Error 116: invalid cache ttl value, cannot be 0 or negative":   change(func(r *pb.Request) { r.CacheKey = "k" }),
		"Error 301: timeout for request message":                        change(func(r *pb.Request) { r.Timeout = 1 }),
	}
	for want, r := range requests {
		_, err := c.SendRequest(t.Context(), r)
		require.Equal(t, codes.Internal, status.Code(err))
		require.Equal(t, want, status.Convert(err).Message())
	}
	responses := map[string]*pb.Response{
		"Error 101: invalid clientID value, cannot be empty": {RequestID: "r", ReplyChannel: "c"},
		"Error 117: invalid request id, cannot be empty":     {ClientID: "c", ReplyChannel: "c"},
		"Error 102: invalid channel value, cannot be empty":  {ClientID: "c", RequestID: "r"},
	}
	for want, r := range responses {
		_, err := c.SendResponse(t.Context(), r)
		require.Equal(t, codes.Internal, status.Code(err))
		require.Equal(t, want, status.Convert(err).Message())
	}
	subscriptions := map[string]*pb.Subscribe{
		"Error 207: invalid subscribe type":                             {SubscribeTypeData: pb.Subscribe_Events, ClientID: "c", Channel: "ch"},
		"Error 101: invalid clientID value, cannot be empty":            {SubscribeTypeData: pb.Subscribe_Queries, Channel: "ch"},
		"Error 102: invalid channel value, cannot be empty":             {SubscribeTypeData: pb.Subscribe_Queries, ClientID: "c"},
		"Error 108: invalid channel value, no white spaces are allowed": {SubscribeTypeData: pb.Subscribe_Commands, ClientID: "c", Channel: "a b"},
	}
	for want, s := range subscriptions {
		stream, err := c.SubscribeToRequests(t.Context(), s)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.Internal, status.Code(err))
		require.Equal(t, want, status.Convert(err).Message())
	}
}

func TestChannelsWithRespondersAreListed(t *testing.T) {
	c := startBroker(t, Config{})
	require.True(t, c.manage("create-channel", kindQueries, "ch", "").Executed)
	require.True(t, c.manage("create-channel", kindQueries, "unused", "").Executed)
	stream := c.respond(pb.Subscribe_Queries, "ch", "")
	outcome := c.ask(query("ch", "x"))
	c.answer(stream, "y")
	require.NoError(t, (<-outcome).err)
	channels := c.list(kindQueries, "")
	require.Len(t, channels, 2)
	require.True(t, channels[0].IsActive)
	require.EqualValues(t, 1, channels[0].Incoming["messages"])
	require.EqualValues(t, 1, channels[0].Outgoing["responses"])
	require.False(t, channels[1].IsActive)
	require.Empty(t, c.list(kindCommands, ""))
}
