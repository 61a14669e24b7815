package gosdk_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/kubemq-io/kubemq-go"
	"github.com/kubemq-io/kubemq-go/queues_stream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lovage-project/lovage/pkg/broker"
)

func TestMain(m *testing.M) {
	// The SDK leaves goroutines behind that it has no way to end.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/kubemq-io/kubemq-go/queues_stream.(*upstream).connectStream"),
		goleak.IgnoreAnyFunction("github.com/kubemq-io/kubemq-go/queues_stream.(*downstream).connectStream"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const patience = 30 * time.Second

// start runs a broker and tells where it listens.
func start(t *testing.T) (host string, port int) {
	t.Helper()
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	address, ok := b.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return "127.0.0.1", address.Port
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect starts a broker and a client of it.
func connect(t *testing.T) *kubemq.Client {
	t.Helper()
	host, port := start(t)
	client, err := kubemq.NewClient(bounded(t), kubemq.WithAddress(host, port), kubemq.WithClientId("go"),
		kubemq.WithTransportType(kubemq.TransportTypeGRPC))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestQueuesByTheClient(t *testing.T) {
	host, port := start(t)
	ctx := bounded(t)
	client, err := kubemq.NewClient(ctx, kubemq.WithAddress(host, port), kubemq.WithClientId("go"),
		kubemq.WithTransportType(kubemq.TransportTypeGRPC))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	info, err := client.Ping(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, info.Version)

	sent, err := client.QM().SetChannel("q").SetBody([]byte("one")).Send(ctx)
	require.NoError(t, err)
	require.False(t, sent.IsError, sent.Error)
	batch := client.QMB()
	batch.Add(client.QM().SetChannel("q").SetBody([]byte("two")).SetMetadata("m").AddTag("k", "v"))
	batch.Add(client.QM().SetChannel("q").SetBody([]byte("three")))
	results, err := batch.Send(ctx)
	require.NoError(t, err)
	require.Len(t, results, 2)

	peeked, err := client.RQM().SetChannel("q").SetMaxNumberOfMessages(3).SetWaitTimeSeconds(1).SetIsPeak(true).Send(ctx)
	require.NoError(t, err)
	require.Len(t, peeked.Messages, 3)
	got, err := client.RQM().SetChannel("q").SetMaxNumberOfMessages(2).SetWaitTimeSeconds(1).Send(ctx)
	require.NoError(t, err)
	require.Equal(t, "one", string(got.Messages[0].Body))
	require.Equal(t, map[string]string{"k": "v"}, got.Messages[1].Tags)
	purged, err := client.AQM().SetChannel("q").SetWaitTimeSeconds(1).Send(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, purged.AffectedMessages)
	queues, err := client.QueuesInfo(ctx, "q")
	require.NoError(t, err)
	require.Zero(t, queues.Waiting)
}

func TestEventsByTheClient(t *testing.T) {
	host, port := start(t)
	ctx := bounded(t)
	client, err := kubemq.NewClient(ctx, kubemq.WithAddress(host, port), kubemq.WithClientId("go"),
		kubemq.WithTransportType(kubemq.TransportTypeGRPC))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	failures := make(chan error, 1)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := client.SubscribeToEvents(listening, "news.*", "", failures)
	require.NoError(t, err)
	// The SDK doesn't say when the subscription is active: send until one arrives.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		require.NoError(t, client.E().SetChannel("news.go").SetBody([]byte("hello")).Send(ctx))
		select {
		case event := <-events:
			require.Equal(t, "hello", string(event.Body))
			require.Equal(t, "news.go", event.Channel)
			return
		case err := <-failures:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-tick.C:
		}
	}
}

func TestStreams(t *testing.T) {
	host, port := start(t)
	ctx := bounded(t)
	client, err := queues_stream.NewQueuesStreamClient(ctx, queues_stream.WithAddress(host, port), queues_stream.WithClientId("go"))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()

	sent, err := client.Send(ctx, queues_stream.NewQueueMessage().SetChannel("q").SetBody([]byte("a")),
		queues_stream.NewQueueMessage().SetChannel("q").SetBody([]byte("b")))
	require.NoError(t, err)
	require.Len(t, sent.Results, 2)
	poll := func(items int) *queues_stream.PollResponse {
		response, err := client.Poll(ctx, queues_stream.NewPollRequest().SetChannel("q").SetMaxItems(items).SetWaitTimeout(1000))
		require.NoError(t, err)
		return response
	}
	first := poll(1)
	require.Equal(t, "a", string(first.Messages[0].Body))
	require.NoError(t, first.Messages[0].NAck()) // to the tail, counted
	second := poll(1)
	require.Equal(t, "b", string(second.Messages[0].Body))
	require.NoError(t, second.Messages[0].Ack())
	third := poll(1)
	require.Equal(t, "a", string(third.Messages[0].Body))
	require.EqualValues(t, 2, third.Messages[0].Attributes.ReceiveCount)
	require.NoError(t, third.Messages[0].ReQueue("other"))
	require.False(t, poll(1).HasMessages())
}
