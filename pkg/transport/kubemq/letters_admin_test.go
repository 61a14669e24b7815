package kubemq

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

// onBothBrokers runs a test against the embedded broker as it is and as the 2023
// server.
func onBothBrokers(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	for name, quirks := range map[string]broker.Quirks{"clean": {}, "as of 2023": broker.AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startBroker(t, broker.Config{Quirks: quirks}).addr())
		})
	}
}

// filled sends messages to the channel dead, with the bodies "0", "1", … of at least size bytes.
func filled(t *testing.T, c *Client, count, size int) []*pb.QueueMessage {
	t.Helper()
	sent := make([]*pb.QueueMessage, count)
	for i := range sent {
		body := make([]byte, size)
		sent[i] = &pb.QueueMessage{Channel: "dead", Body: append(fmt.Append(nil, i), body...)}
		require.NoError(t, c.Send(t.Context(), sent[i]))
	}
	return sent
}

// bodies reads what is in a channel.
func bodies(t *testing.T, c *Client, channel string) (found []string) {
	t.Helper()
	require.NoError(t, c.Scan(t.Context(), channel, true, func(m *pb.QueueMessage) { found = append(found, string(m.Body)) }))
	return found
}

func TestScan(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c := dialed(t, address)
		const count = MaxPeek + 200
		sent := filled(t, c, count, 0)
		for _, deep := range []bool{false, true, false, true} {
			var seen []string
			require.NoError(t, c.Scan(t.Context(), "dead", deep, func(m *pb.QueueMessage) { seen = append(seen, string(m.Body)) }))
			want := MaxPeek
			if deep {
				want = count
			}
			require.Len(t, seen, want)
			for i, body := range seen {
				require.Equal(t, string(sent[i].Body), body)
			}
		}
		state, err := c.Queue(t.Context(), "dead")
		require.NoError(t, err)
		require.Equal(t, QueueState{Depth: count, Last: count}, state)
	})
}

// TestScanOfLargeMessages: what does not fit into one answer is asked for in
// smaller portions.
func TestScanOfLargeMessages(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c, err := NewClient(Config{Address: address, MaxReceive: 64 << 10})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		filled(t, c, 50, 3000)
		seen := 0
		require.NoError(t, c.Scan(t.Context(), "dead", false, func(*pb.QueueMessage) { seen++ }))
		require.Equal(t, MaxPeek>>6, seen)
	})
}

func TestScanDeeplyOfLargeMessages(t *testing.T) {
	t.Parallel()
	c, err := NewClient(Config{Address: startBroker(t, broker.Config{}).addr(), MaxReceive: 64 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	filled(t, c, 50, 3000)
	require.Len(t, bodies(t, c, "dead"), 50)
}

func TestScanOfNothing(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		c := dialed(t, address)
		require.Empty(t, bodies(t, c, "never.used"))
		state, err := c.Queue(t.Context(), "never.used")
		require.NoError(t, err)
		require.Zero(t, state)
	})
}

// TestLettersComeBackAsTheyWere: what real producers sent, and any bytes, become a
// dead letter and are restored, byte for byte.
func TestLettersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, address string) {
		t.Helper()
		tr := started(t, Config{Address: address})
		c := dialed(t, address)
		originals := append(vectorMessages(t), randomMessages(50)...)
		for _, message := range originals {
			message.Channel = "work"
			require.NoError(t, c.Send(t.Context(), message))
		}
		for _, d := range received(t, opened(t, tr, "work"), len(originals)) {
			require.NoError(t, d.DeadLetter(t.Context(), transport.DeadLetter{
				Queue: "dead", Reason: "rejected", Detail: "last", FirstError: "first", Traceback: "trace", Task: "t", ID: "i",
				Worker: "w", Time: time.Unix(1, 0),
			}))
		}
		letters := map[string]*pb.QueueMessage{}
		require.NoError(t, c.Scan(t.Context(), "dead", true, func(m *pb.QueueMessage) { letters[string(m.Body)] = m }))
		for _, want := range originals {
			letter := letters[string(want.Body)]
			require.NotNil(t, letter)
			require.Equal(t, "work", LetterOf(letter).From)
			got := Restored(letter)
			require.Equal(t, want.Body, got.Body)
			require.Equal(t, want.Metadata, got.Metadata)
			require.Equal(t, "true", got.Tags[tagReplayed])
			delete(got.Tags, tagReplayed)
			require.True(t, maps.Equal(want.Tags, got.Tags), "%v, not %v", got.Tags, want.Tags)
			require.Equal(t, &pb.QueueMessagePolicy{}, got.Policy)
		}
	})
}

// vectorMessages are the task messages that real Celery sent, as kubemq-celery puts
// them on KubeMQ (docs/protocol.md §20.2).
func vectorMessages(t *testing.T) (messages []*pb.QueueMessage) {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"msg_*.json", "*/msg_*.json"} {
		found, err := filepath.Glob(filepath.Join("../../protocol/testdata/vectors", pattern))
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		// Not encoding/json, which doesn't read NaN.
		vector, err := protocol.DecodeJSON(text, protocol.DefaultLimits())
		require.NoError(t, err)
		for _, sent := range vector.(map[string]any)["messages"].([]any) {
			body := []byte(sent.(map[string]any)["redis_value"].(string))
			envelope, err := protocol.DecodeEnvelope(body, protocol.DefaultLimits())
			require.NoError(t, err)
			headers, err := envelope.HeadersJSON()
			require.NoError(t, err)
			messages = append(messages, &pb.QueueMessage{
				Body: body, Metadata: string(headers), Tags: map[string]string{tagPriority: "3"},
			})
		}
	}
	require.Greater(t, len(messages), 100)
	return messages
}

// randomMessages have any bytes as their bodies and any text elsewhere.
func randomMessages(count int) []*pb.QueueMessage {
	random := rand.New(rand.NewPCG(7, 7))
	text := func() string {
		runes := make([]rune, random.IntN(40))
		for i := range runes {
			runes[i] = rune(random.IntN(0xD800))
		}
		return string(runes)
	}
	messages := make([]*pb.QueueMessage, count)
	for i := range messages {
		body := make([]byte, 8+random.IntN(5000))
		for at := range body {
			body[at] = byte(random.Uint32())
		}
		messages[i] = &pb.QueueMessage{Body: body, Metadata: text(), Tags: map[string]string{}}
		for range random.IntN(4) {
			messages[i].Tags["t"+text()] = text()
		}
	}
	return messages
}

// TestAReplayedLetterIsRedelivered, though it has no attempts: its worker must look
// for the failure that is stored.
func TestAReplayedLetterIsRedelivered(t *testing.T) {
	t.Parallel()
	tr := started(t, Config{Address: startBroker(t, broker.Config{}).addr(), Strategy: StrategyDirect})
	for range 2 {
		replayed := Restored(&pb.QueueMessage{Body: []byte("x"), Tags: map[string]string{tagAttempts: "3", tagReplayed: "true"}})
		replayed.Channel = "q"
		require.NoError(t, tr.publisher.Send(t.Context(), replayed))
		d := received(t, opened(t, tr, "q"), 1)[0]
		require.True(t, d.Redelivered())
		require.Equal(t, 1, d.Attempt())
		require.NoError(t, d.Ack(t.Context()))
	}
}

func TestRewrittenKeepsWhatStandsBeside(t *testing.T) {
	t.Parallel()
	letter := &pb.QueueMessage{Channel: "dead", Body: []byte("b"), Metadata: "m", Tags: map[string]string{
		"priority": "3", tagAttempts: "4", tagTask: "old", tagReason: "rejected",
	}}
	got := Rewritten(letter, []byte("new"), "n", "task", "id")
	require.Equal(t, &pb.QueueMessage{
		Channel: "dead", Body: []byte("new"), Metadata: "n", Policy: &pb.QueueMessagePolicy{},
		Tags: map[string]string{"priority": "3", tagAttempts: "4", tagTask: "task", tagReason: "rejected"},
	}, got)
	require.Equal(t, "old", letter.Tags[tagTask])
}

// namesServer lists queues as the 2023 server does: it cuts their names, and knows
// them only so.
type namesServer struct {
	fakeServer
	listed []*pb.QueueInfo // nil: it can't list queues
	oldest *pb.QueueMessage
}

func (s *namesServer) ReceiveQueueMessages(context.Context, *pb.ReceiveQueueMessagesRequest) (*pb.ReceiveQueueMessagesResponse, error) {
	return &pb.ReceiveQueueMessagesResponse{Messages: []*pb.QueueMessage{s.oldest}}, nil
}

func (s *namesServer) QueuesInfo(ctx context.Context, request *pb.QueuesInfoRequest) (*pb.QueuesInfoResponse, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, status.Error(codes.Internal, "a client that would wait for ever")
	}
	if s.listed == nil {
		return nil, status.Error(codes.Unimplemented, "unknown method QueuesInfo")
	}
	info := &pb.QueuesInfo{}
	for _, q := range s.listed {
		if request.QueueName == "" || slices.Contains(strings.Split(request.QueueName, ";"), q.Name) {
			info.Queues = append(info.Queues, q)
		}
	}
	return &pb.QueuesInfoResponse{Info: info}, nil
}

func TestQueueWhoseNameIsCut(t *testing.T) {
	t.Parallel()
	server := &namesServer{listed: []*pb.QueueInfo{
		{Name: "other", Messages: 9, Waiting: 9, LastSequence: 9},
		{Name: "DL", Messages: 4, Waiting: 2, LastSequence: 4},
		{Name: "empty", Messages: 0, Waiting: 1},
	}}
	c := dialed(t, serveFake(t, server))
	for queue, want := range map[string]QueueState{
		"DLQ": {Depth: 2, Last: 4}, "other": {Depth: 9, Last: 9}, "empty": {}, "unknown": {},
	} {
		state, err := c.Queue(t.Context(), queue)
		require.NoError(t, err)
		require.Equal(t, want, state, queue)
	}
	depths, err := c.Queues(t.Context(), "DLQ", "unknown", "other")
	require.NoError(t, err)
	require.Equal(t, []QueueDepth{{Name: "DLQ", Depth: 2}, {Name: "other", Depth: 9}}, depths)
}

func TestScanDeeplyWhereNoDepthIsTold(t *testing.T) {
	t.Parallel()
	server := &namesServer{oldest: message("0", 1)}
	messages := make([]*pb.QueueMessage, MaxPeek+5)
	for i := range messages {
		messages[i] = message(strconv.Itoa(i), uint64(i+1))
	}
	server.downstream = holding(messages...)
	require.Len(t, bodies(t, dialed(t, serveFake(t, server)), "dead"), MaxPeek+5)
}
