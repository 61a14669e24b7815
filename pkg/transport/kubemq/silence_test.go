package kubemq

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

// impatient notices a silent peer after a second.
func impatient(address string, hooks transport.Hooks) Config {
	return Config{Address: address, KeepaliveTimeout: time.Second, ConnectTimeout: time.Second, Hooks: hooks}
}

// TestPeerThatVanished: connections that look well and are dead are made anew, and
// whoever waits on them goes on.
func TestPeerThatVanished(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	proxy := transporttest.NewProxy(t, server.addr())
	var record recorder
	tr := started(t, impatient(proxy.Addr(), record.hooks()))
	c := opened(t, tr, "q")
	heard := make(chan string, 100)
	subscription, err := tr.Subscribe(t.Context(), "c", func(body []byte) { heard <- string(body) })
	require.NoError(t, err)
	defer func() { require.NoError(t, subscription.Close()) }()
	var receiving sync.WaitGroup
	var got []transport.Delivery
	receiving.Go(func() { got = received(t, c, 1) })

	proxy.Vanish()
	within(t, func() bool { return record.has("lost", "restored") }, "restored")
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	receiving.Wait()
	require.NoError(t, got[0].Ack(t.Context()))
	within(t, func() bool {
		require.NoError(t, tr.Broadcast(t.Context(), "c", []byte("anyone?"), nil))
		return len(heard) > 0
	}, "the subscription is back")
}

// TestPublishToAPeerThatVanished: a client without a link, as for results, comes
// back within one call's time.
func TestPublishToAPeerThatVanished(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	proxy := transporttest.NewProxy(t, server.addr())
	client, err := NewClient(impatient(proxy.Addr(), transport.Hooks{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	require.NoError(t, client.Connect(t.Context(), nil))
	proxy.Vanish()
	require.NoError(t, client.Send(t.Context(), newMessage("q", transport.Outgoing{Body: []byte("x")})))
	require.Equal(t, 2, proxy.Accepted())
}

// TestBlackHole: what a network held back for longer than the patience is not
// lost, and the worker comes back by itself.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	server := startBroker(t, broker.Config{})
	proxy := transporttest.NewProxy(t, server.addr())
	var record recorder
	tr := started(t, impatient(proxy.Addr(), record.hooks()))
	c := opened(t, tr, "q")
	var receiving sync.WaitGroup
	var got []transport.Delivery
	receiving.Go(func() { got = received(t, c, 1) })
	proxy.Freeze()
	within(t, func() bool { return record.has("lost", "retrying", "retrying") }, "lost")
	proxy.Thaw()
	require.NoError(t, tr.Publish(t.Context(), "q", transport.Outgoing{Body: []byte("x")}))
	receiving.Wait()
	require.NoError(t, got[0].Ack(t.Context()))
	within(t, func() bool { return record.has("restored") }, "restored")
}

// TestSlowIsNotSilent: a connection on which something comes is not hung up, though
// an answer is late; one on which nothing comes is, when its time is over.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { require.NoError(t, far.Close()) }()
		l := newLine(insecure.NewCredentials(), 5*time.Second)
		unasked := time.Now()
		<-time.After(time.Hour)
		socket, _, err := l.ClientHandshake(t.Context(), "", near)
		require.NoError(t, err)
		l.unanswered(unasked) // of an earlier connection
		for range 10 {
			sent := time.Now()
			<-time.After(4 * time.Second)
			go func() { _, _ = far.Write([]byte("part of an answer")) }()
			_, err := socket.Read(make([]byte, 100))
			require.NoError(t, err)
			<-time.After(4 * time.Second)
			l.unanswered(sent)
		}
		sent := time.Now()
		<-time.After(4 * time.Second)
		l.unanswered(sent)
		<-time.After(time.Second)
		go func() { _, _ = far.Write([]byte("still open")) }()
		_, err = socket.Read(make([]byte, 100))
		require.NoError(t, err)
		sent = time.Now()
		<-time.After(5 * time.Second)
		l.unanswered(sent)
		_, err = socket.Read(make([]byte, 100))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// TestGivesUp: when the attempts are used up, and not before.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start, later int
		tries        int
	}{
		"not at all":  {-1, -1, 1},
		"three times": {3, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, err := New(Config{Address: "127.0.0.1:1", StartRetries: c.start})
			require.NoError(t, err)
			err = tr.Start(t.Context())
			require.ErrorIs(t, err, transport.ErrGaveUp)
			require.ErrorContains(t, err, "refused", "the reason is there")
			require.NoError(t, tr.Stop())

			server := startBroker(t, broker.Config{})
			var record recorder
			hooks := record.hooks()
			gaveUp := make(chan error, 1)
			hooks.GaveUp = func(err error) { gaveUp <- err }
			tr = started(t, Config{Address: server.addr(), Retries: c.later, Hooks: hooks})
			consumer := opened(t, tr, "q")
			server.stop(t)
			require.ErrorIs(t, <-gaveUp, transport.ErrGaveUp)
			err = consumer.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second}, func(transport.Delivery) {})
			require.ErrorIs(t, err, transport.ErrGaveUp)
			record.mu.Lock()
			defer record.mu.Unlock()
			require.Len(t, record.calls, c.tries, "lost, then the attempts but the last")
		})
	}
}
