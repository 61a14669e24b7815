package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestALifeOfABroker(t *testing.T) {
	b, err := New(Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.Nil(t, b.Addr())
	require.NoError(t, b.Start(t.Context()))
	require.ErrorIs(t, b.Start(t.Context()), ErrStopped)
	require.NotNil(t, b.Addr())
	select {
	case <-b.Done():
		t.Fatal("done while it runs")
	default:
	}
	require.NoError(t, b.Stop())
	require.NoError(t, b.Stop(), "stopping twice is allowed")
	<-b.Done()
	require.NoError(t, b.Err())
	require.ErrorIs(t, b.Start(t.Context()), ErrStopped)
}

func TestStoppingABrokerThatWasNeverStarted(t *testing.T) {
	b, err := New(Config{})
	require.NoError(t, err)
	require.NoError(t, b.Stop())
	require.ErrorIs(t, b.Start(t.Context()), ErrStopped)
}

func TestABrokerThatCantListenSaysWhere(t *testing.T) {
	var listen net.ListenConfig
	taken, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	b, err := New(Config{Listen: taken.Addr().String()})
	require.NoError(t, err)
	require.ErrorContains(t, b.Start(t.Context()), "broker: listen on "+taken.Addr().String())
}

func TestABrokerWhoseStoreFailsEnds(t *testing.T) {
	b, err := New(Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	store := newGateStore()
	require.NoError(t, b.startOn(t.Context(), store))
	c := connect(t, b)
	consumer := c.consumer()
	consumer.startGet("q", 1, time.Hour)
	upstream, err := c.QueuesUpstream(t.Context())
	require.NoError(t, err)
	require.NoError(t, upstream.Send(&pb.QueuesUpstreamRequest{Messages: []*pb.QueueMessage{testMessage("q", "x")}}))
	broken := errors.New("disk on fire")
	store.gate <- broken

	<-b.Done()
	require.ErrorIs(t, b.Err(), broken)
	require.ErrorIs(t, b.Stop(), broken)
	_, err = consumer.stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err), "no message comes from a store that failed")
	if response, err := upstream.Recv(); err == nil { // the answer may be lost with the connection
		require.True(t, response.Results[0].IsError)
	}
}

func TestAStoreIsUsedByOneBrokerAtATime(t *testing.T) {
	dir := t.TempDir()
	startBroker(t, Config{DataDir: dir})
	second, err := New(Config{Listen: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	require.ErrorContains(t, second.Start(t.Context()), "broker: lock the store in "+dir)
}

func TestConfigurationErrorsNameFieldValueAndLimit(t *testing.T) {
	_, err := New(Config{Sync: 7, MaxDelay: time.Millisecond, MaxExpiration: -1, MinWait: -1, Linger: -1, MaxMessageBytes: 1, MaxQueues: -1, MaxStreams: -1, MaxWaiting: -1})
	for _, text := range []string{
		"sync 7 is unknown", "max delay 1ms is below 1s", "max expiration -1ns is below 1s", "min wait -1ns is negative",
		"linger -1ns is negative", "max message bytes 1 is not between 65536 and 1073741824", "max queues -1 is below 1",
		"max streams -1 is below 1", "max waiting -1 is below 1",
	} {
		require.ErrorContains(t, err, "broker: config: "+text)
	}
}

func TestPing(t *testing.T) {
	c := startBroker(t, Config{})
	pong, err := c.Ping(t.Context(), &pb.Empty{})
	require.NoError(t, err)
	require.Equal(t, "2.6.0", pong.Version)
	require.NotEmpty(t, pong.Host)
	require.WithinDuration(t, time.Now(), time.Unix(pong.ServerStartTime, 0), waitLimit)
}

func TestTheTokenIsCheckedOnEveryCallButPing(t *testing.T) {
	c := startBroker(t, Config{AuthToken: "secret"})
	_, err := c.Ping(t.Context(), &pb.Empty{})
	require.NoError(t, err)

	calls := map[string]func(ctx context.Context) error{
		"unary": func(ctx context.Context) error {
			_, err := c.SendQueueMessage(ctx, testMessage("q", "x"))
			return err
		},
		"stream": func(ctx context.Context) error {
			stream, err := c.QueuesUpstream(ctx)
			if err != nil {
				return err
			}
			// A refusal can come before this: Send fails with EOF then, and Recv says why.
			err = stream.Send(&pb.QueuesUpstreamRequest{Messages: []*pb.QueueMessage{testMessage("q", "x")}})
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call(t.Context())
			require.Equal(t, codes.Unauthenticated, status.Code(err))
			require.ErrorContains(t, err, "Authorization token is not supplied")
			err = call(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Secret"))
			require.Equal(t, codes.Unauthenticated, status.Code(err))
			require.ErrorContains(t, err, "Error 421: authentication verification failed, ")
			ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "authorization", "secret"))
			defer cancel()
			require.NoError(t, call(ctx))
		})
	}
}

func TestOpenStreamsAreBounded(t *testing.T) {
	c := startBroker(t, Config{MaxStreams: 1})
	first := c.consumer()
	first.get("q", 1)
	second := c.consumer()
	_, err := second.stream.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "broker: too many open streams (limit 1)")
}

func TestEverythingIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	first := startBroker(t, Config{DataDir: dir})
	first.sendBodies("q", "acked", "nacked", "in flight", "ready")
	due := first.send(delayed("q", "delayed", 1, 0))[0].DelayedTo
	first.send(delayed("q", "far", 3600, 0), delayed("gone", "expires", 0, 1))
	first.manage("create-channel", kindQueues, "created", "")
	first.manage("create-channel", kindEvents, "news", "")
	consumer := first.consumer()
	got := consumer.get("q", 3)
	consumer.settle(typeAckRange, got.TransactionId, 1)
	consumer.settle(typeNAckRange, got.TransactionId, 2)
	open, _ := consumer.barrier(got.TransactionId)
	require.Equal(t, []int64{3}, open)
	require.NoError(t, first.broker.Stop())

	second := startBroker(t, Config{DataDir: dir})
	consumer = second.consumer()
	again := consumer.get("q", 10)
	require.Equal(t, []string{"in flight", "ready", "nacked"}, bodies(again.Messages)[:3])
	require.Equal(t, []int64{3, 4, 5}, sequences(again.Messages)[:3])
	for i, count := range []int32{1, 1, 2} {
		require.Equal(t, count, again.Messages[i].Attributes.ReceiveCount)
	}
	if len(again.Messages) == 3 { // otherwise the restart took longer than the delay
		late := consumer.getWait("q", 1, waitLimit)
		require.Equal(t, []string{"delayed"}, bodies(late.Messages))
		require.GreaterOrEqual(t, time.Now().UnixNano(), due)
	}
	require.Equal(t, "created", second.list(kindQueues, "created")[0].Name)
	require.Len(t, second.list(kindEvents, ""), 1)
	require.EqualValues(t, 1, second.list(kindQueues, "q")[0].Incoming["delayed"])
	second.waitFor("the expiration", func() bool { return second.waiting("gone") == 0 })
}

func TestABrokerListensOnLoopbackUnlessToldOtherwise(t *testing.T) {
	b, err := New(Config{})
	require.NoError(t, err)
	host, _, err := net.SplitHostPort(b.config.Listen)
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback())
	require.Empty(t, b.config.HTTPListen, "and has no HTTP side")
}
