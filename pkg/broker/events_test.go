package broker

import (
	"io"
	"slices"
	"strconv"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func event(channel, body string) *pb.Event {
	return &pb.Event{ClientID: "test", Channel: channel, Body: []byte(body)}
}

// subscribe returns when the subscription is active.
func (c *client) subscribe(channel, group string) pb.Kubemq_SubscribeToEventsClient {
	c.t.Helper()
	stream, err := c.SubscribeToEvents(c.t.Context(), &pb.Subscribe{
		SubscribeTypeData: pb.Subscribe_Events, ClientID: "test", Channel: channel, Group: group,
	})
	require.NoError(c.t, err)
	_, err = stream.Header()
	require.NoError(c.t, err)
	return stream
}

func (c *client) receiveEvent(stream pb.Kubemq_SubscribeToEventsClient) *pb.EventReceive {
	c.t.Helper()
	received, err := stream.Recv()
	require.NoError(c.t, err)
	return received
}

func TestEventsReachEverySubscriberWithoutGroup(t *testing.T) {
	c := startBroker(t, Config{})
	subscribers := []pb.Kubemq_SubscribeToEventsClient{c.subscribe("ch", ""), c.subscribe("ch", ""), c.subscribe("*", ""), c.subscribe(">", "")}
	other := c.subscribe("other", "")
	sent := event("ch", "x")
	sent.EventID, sent.Metadata, sent.Tags = "id", "meta", map[string]string{"k": "v"}
	result, err := c.SendEvent(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, &pb.Result{EventID: "id", Sent: true}, result)
	for _, s := range subscribers {
		require.Equal(t, &pb.EventReceive{EventID: "id", Channel: "ch", Metadata: "meta", Body: []byte("x"), Tags: sent.Tags}, c.receiveEvent(s))
	}
	result, err = c.SendEvent(t.Context(), event("other", "first"))
	require.NoError(t, err)
	require.NotEmpty(t, result.EventID)
	require.Equal(t, "first", string(c.receiveEvent(other).Body))
	_, err = c.SendEvent(t.Context(), event("nobody", "x"))
	require.NoError(t, err)
}

func TestOneOfAGroupGetsAnEvent(t *testing.T) {
	c := startBroker(t, Config{})
	const n = 200
	total := make(chan string, 2*n)
	for range 2 {
		member := c.subscribe("ch", "g")
		go func() {
			for {
				received, err := member.Recv()
				if err != nil {
					return
				}
				total <- string(received.Body)
			}
		}()
	}
	alone := c.subscribe("ch", "another group")
	stream, err := c.SendEventsStream(t.Context())
	require.NoError(t, err)
	want := make([]string, 0, n)
	for i := range n {
		want = append(want, strconv.Itoa(i))
		require.NoError(t, stream.Send(event("ch", want[i])))
	}
	got, single := make([]string, n), make([]string, n)
	for i := range n {
		got[i] = <-total
		single[i] = string(c.receiveEvent(alone).Body)
	}
	require.Equal(t, want, single, "in the order of the publisher")
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
	require.Empty(t, total)
}

func TestAnEventsStreamAnswersOnlyFailures(t *testing.T) {
	c := startBroker(t, Config{})
	stream, err := c.SendEventsStream(t.Context())
	require.NoError(t, err)
	bad := event("a.*", "x")
	bad.EventID = "bad"
	stored := event("ch", "x")
	stored.Store = true
	for _, e := range []*pb.Event{event("ch", "x"), bad, stored, event("ch", "y")} {
		require.NoError(t, stream.Send(e))
	}
	require.NoError(t, stream.CloseSend())
	result, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, &pb.Result{EventID: "bad", Error: "Error 107: invalid channel value, no wildcards are allowed"}, result)
	result, err = stream.Recv()
	require.NoError(t, err)
	require.Contains(t, result.Error, "events store")
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF, "half-closing ends it cleanly")
}

func TestEventErrorsAreStatusInternal(t *testing.T) {
	c := startBroker(t, Config{})
	events := map[error]*pb.Event{
		errClientID:     {Channel: "ch", Metadata: "x"},
		errChannelEmpty: event("", "x"),
		errChannelWild:  event("a.>", "x"),
		errChannelSpace: event("a b", "x"),
		errChannelDot:   event("a.", "x"),
		errMessageEmpty: event("ch", ""),
	}
	for want, e := range events {
		_, err := c.SendEvent(t.Context(), e)
		require.Equal(t, codes.Internal, status.Code(err))
		require.ErrorContains(t, err, want.Error())
	}
	subscriptions := map[error]*pb.Subscribe{
		errClientID:      {SubscribeTypeData: pb.Subscribe_Events, Channel: "ch"},
		errChannelEmpty:  {SubscribeTypeData: pb.Subscribe_Events, ClientID: "c"},
		errChannelSpace:  {SubscribeTypeData: pb.Subscribe_Events, ClientID: "c", Channel: "a b"},
		errChannelDot:    {SubscribeTypeData: pb.Subscribe_Events, ClientID: "c", Channel: "a."},
		errStartType:     {SubscribeTypeData: pb.Subscribe_Events, ClientID: "c", Channel: "ch", EventsStoreTypeData: 1},
		errSubscribeType: {ClientID: "c", Channel: "ch"},
	}
	for want, s := range subscriptions {
		stream, err := c.SubscribeToEvents(t.Context(), s)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.Internal, status.Code(err))
		require.ErrorContains(t, err, want.Error())
	}
}

func TestWildcards(t *testing.T) {
	tests := []struct {
		pattern, channel string
		want             bool
	}{
		{"*", "a", true}, {"*", "a.b", false}, {">", "a", true}, {">", "a.b.c", true},
		{"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false}, {"a.*", "b.b", false},
		{"a.>", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false},
		{"*.b", "a.b", true}, {"*.b", "a.c", false}, {"a.*.c", "a.b.c", true}, {"a.*.c", "a.b.d", false},
		{"*.*", "a.b", true}, {"*.*", "a", false}, {">.a", "b.a", false}, {"a*", "ab", false},
	}
	for _, test := range tests {
		require.Equal(t, test.want, matches(test.pattern, test.channel), "%s %s", test.pattern, test.channel)
	}
}

func FuzzWildcards(f *testing.F) {
	f.Add("a.*.>", "a.b.c.d")
	f.Fuzz(func(t *testing.T, pattern, channel string) {
		if !isWildcard(pattern) && matches(pattern, channel) {
			require.Equal(t, pattern, channel)
		}
	})
}

func TestASlowSubscriberLosesEventsAndSlowsNobody(t *testing.T) {
	e := newEvents()
	slow := e.subscribe("ch", "")
	for range maxSubscriberEvents + 10 {
		e.publish(event("ch", "x"))
	}
	require.Len(t, slow.events, maxSubscriberEvents)

	large := e.subscribe("large", "")
	for range 10 {
		e.publish(event("large", string(make([]byte, maxSubscriberBytes/4))))
	}
	require.Len(t, large.events, 3)
	large.taken(<-large.events)
	e.publish(event("large", string(make([]byte, maxSubscriberBytes/4))))
	require.Len(t, large.events, 3)

	e.unsubscribe(slow)
	e.unsubscribe(large)
	require.Empty(t, e.exact)
}

func TestChannelsWithSubscribersAreListed(t *testing.T) {
	c := startBroker(t, Config{})
	require.True(t, c.manage("create-channel", kindEvents, "ch", "").Executed)
	stream := c.subscribe("ch", "")
	_, err := c.SendEvent(t.Context(), event("ch", "x"))
	require.NoError(t, err)
	c.receiveEvent(stream)
	channels := c.list(kindEvents, "")
	require.Len(t, channels, 1)
	require.True(t, channels[0].IsActive)
	require.EqualValues(t, 1, channels[0].Incoming["messages"])
}
