package kubemq

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

func TestProbeOfTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr()})
	require.Zero(t, tr.Capabilities().MinWait)
}

// TestProbeOfQuirks: each of what StrategyDirect can't bear is found on its own, and
// all of it together.
func TestProbeOfQuirks(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		quirks broker.Quirks
		reason string
	}{
		"wait":    {broker.Quirks{FullBatchWait: true}, "a Get for more than there is waits"},
		"capture": {broker.Quirks{Capture: true}, "an open transaction takes later messages"},
		"serial":  {broker.Quirks{SerialStreams: true}, "settlements wait behind a Get"},
		"all":     {broker.AllQuirks(), "a Get for more than there is waits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notes := make(chan string, 1)
			tr := started(t, Config{
				Address: startBroker(t, broker.Config{Quirks: one.quirks}).addr(),
				Hooks:   transport.Hooks{Note: func(text string) { notes <- text }},
			})
			require.Equal(t, "kubemq: strategy single: "+one.reason, <-notes)
			require.Equal(t, time.Second, tr.Capabilities().MinWait)
		})
	}
}

// TestProbe imitates servers that must not get StrategyDirect.
func TestProbe(t *testing.T) {
	t.Parallel()
	type answerFunc = func(*pb.QueuesDownstreamResponse)
	one := func() []*pb.QueueMessage { return []*pb.QueueMessage{message("probe", 1)} }
	for reason, server := range map[string]struct {
		gets   int // of one try
		answer func(get int, answer answerFunc)
	}{
		"a Get for more than there is waits": {1, func(_ int, answer answerFunc) {
			time.AfterFunc(minGetWait, func() {
				answer(&pb.QueuesDownstreamResponse{Messages: one()})
			})
		}},
		"an open transaction takes later messages": {2, func(get int, answer answerFunc) {
			if get == 1 {
				answer(&pb.QueuesDownstreamResponse{Messages: one()})
				return
			}
			answer(&pb.QueuesDownstreamResponse{})
		}},
		"settlements wait behind a Get": {3, func(get int, answer answerFunc) {
			if get < 3 {
				answer(&pb.QueuesDownstreamResponse{Messages: one()})
				return
			}
			// The handler is busy with the Get: the barrier stands behind it.
			<-time.After(minGetWait)
			answer(&pb.QueuesDownstreamResponse{})
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			gets := 0
			fake := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
				switch request.RequestTypeData {
				case pb.QueuesDownstreamRequestType_Get:
					mu.Lock()
					n := gets%server.gets + 1
					gets++
					mu.Unlock()
					server.answer(n, answer)
				case pb.QueuesDownstreamRequestType_ActiveOffsets:
					answer(&pb.QueuesDownstreamResponse{})
				default:
				}
			}}
			notes := make(chan string, 1)
			tr := started(t, Config{
				Address: fake.serve(t), Hooks: transport.Hooks{Note: func(text string) { notes <- text }},
			})
			require.Equal(t, "kubemq: strategy single: "+reason, <-notes)
			require.Equal(t, time.Second, tr.Capabilities().MinWait)
			require.Len(t, fake.of(pb.QueuesDownstreamRequestType_Get), probeTries*server.gets)
		})
	}
}

// TestStartPausesBetweenProbes: a server that answers Ping and refuses everything
// else for now is not flooded with streams and scratch queues.
func TestStartPausesBetweenProbes(t *testing.T) {
	t.Parallel()
	server := &fakeServer{downstream: func(_ *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		answer(&pb.QueuesDownstreamResponse{IsError: true, Error: "Error 302: connection not available, please retry"})
	}}
	var told atomic.Int64
	tr, err := New(Config{Address: server.serve(t), Hooks: transport.Hooks{
		Retrying: func(error, int, time.Duration) { told.Add(1) },
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Stop()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, tr.Start(ctx))
	require.Less(t, len(server.messagesSent()), 20)
	require.Positive(t, told.Load())
}
