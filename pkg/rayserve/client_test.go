package rayserve

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	resultsrayserve "github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	patience = time.Minute
	queue    = "inference.tasks"
)

func startBroker(t *testing.T) string {
	t.Helper()
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	return b.Addr().String()
}

func open(t *testing.T, config Config) *Client {
	t.Helper()
	config.Queue = queue
	c, err := NewClient(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	return c
}

func connect(address string) kubemq.Config { return kubemq.Config{Address: address} }

// backendOf stores results as a worker does.
func backendOf(t *testing.T, address string) *resultsrayserve.Backend {
	t.Helper()
	b, err := resultsrayserve.New(resultsrayserve.Config{Connection: connect(address)})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	return b
}

// waiting are the messages of a channel.
func waiting(t *testing.T, c *Client, channel string) []*pb.QueueMessage {
	t.Helper()
	messages, err := c.sender.Peek(t.Context(), channel, 10, time.Second)
	require.NoError(t, err)
	return messages
}

func TestEnqueueIsTheAdapters(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Connection: connect(startBroker(t)), MaxRetries: 3, FailedTaskQueue: "failed", ResultExpiry: time.Minute})
	id, err := c.Enqueue(t.Context(), "score", []any{1, []float32{0.5}}, map[string]any{"x": nil})
	require.NoError(t, err)

	messages := waiting(t, c, queue)
	require.Len(t, messages, 1)
	message := messages[0]
	task, err := wire.DecodeTask(message.Body, protocol.DefaultLimits())
	require.NoError(t, err)
	created := task.CreatedAt
	require.Equal(t, &wire.Task{
		ID: id, Name: "score", Args: []any{int64(1), []any{0.5}}, Kwargs: map[string]any{"x": nil}, CreatedAt: created,
	}, task)
	at, err := protocol.ParseTime(created)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Hour)
	require.Empty(t, message.Metadata)
	require.Empty(t, message.Tags)
	require.EqualValues(t, 3, message.Policy.MaxReceiveCount)
	require.Equal(t, "failed", message.Policy.MaxReceiveQueue)
	require.Zero(t, message.Policy.ExpirationSeconds)

	stored := waiting(t, c, "rayserve-result-"+id)
	require.Len(t, stored, 1)
	require.EqualValues(t, 60, stored[0].Policy.ExpirationSeconds)
	status, err := c.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, TaskResult{ID: id, Status: StatusPending, CreatedAt: created}, status)
}

func TestEnqueueWithoutADeadLetterRule(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Connection: connect(startBroker(t)), MaxRetries: 3})
	_, err := c.Enqueue(t.Context(), "score", nil, nil)
	require.NoError(t, err)
	messages := waiting(t, c, queue)
	require.Len(t, messages, 1)
	require.NotEqualValues(t, 3, messages[0].Policy.MaxReceiveCount, "both or none")
	require.Empty(t, messages[0].Policy.MaxReceiveQueue)
}

// TestEnqueueOfWhatTheBrokerRefuses: nobody is left with an id that stays PENDING.
func TestEnqueueOfWhatTheBrokerRefuses(t *testing.T) {
	t.Parallel()
	connection := connect(startBroker(t))
	connection.MaxSend = 64 << 10
	c := open(t, Config{Connection: connection})
	id, err := c.Enqueue(t.Context(), "score", []any{strings.Repeat("x", 1<<20)}, nil)
	require.ErrorIs(t, err, transport.ErrTooLarge)
	require.Empty(t, id)
	queues, err := c.sender.Queues(t.Context())
	require.NoError(t, err)
	for _, q := range queues {
		require.Zero(t, q.Depth, "%s: neither a task nor a state of one", q.Name)
	}
}

func TestNothingIsSentForABadArgument(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Connection: connect(startBroker(t))})
	type model struct {
		Weights []byte `json:"weights"`
	}
	for want, send := range map[string]func() error{
		"args[2].weights: type []uint8 has no form in JSON; pass them as a string": func() error {
			_, err := c.Enqueue(t.Context(), "score", []any{1, 2, model{Weights: []byte{1}}}, nil)
			return err
		},
		`kwargs["x"]: type chan int has no form`: func() error {
			_, err := c.Enqueue(t.Context(), "score", nil, map[string]any{"x": make(chan int)})
			return err
		},
		`kwargs["f"]: type func() has no form`: func() error {
			_, err := c.Query(t.Context(), "score", nil, map[string]any{"f": func() {}}, 0)
			return err
		},
	} {
		err := send()
		var encode *protocol.EncodeError
		require.ErrorAs(t, err, &encode)
		require.ErrorContains(t, err, want)
	}
	_, err := c.Enqueue(t.Context(), "", nil, nil)
	require.ErrorContains(t, err, "no name")
	queues, err := c.sender.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, queues, "neither tasks nor results")
}

func TestResultsOfAWorker(t *testing.T) {
	t.Parallel()
	address := startBroker(t)
	c, worker := open(t, Config{Connection: connect(address)}), backendOf(t, address)
	for name, step := range map[string]struct {
		stored protocol.Meta
		want   TaskResult
	}{
		"success": {
			protocol.Meta{Status: protocol.StateSuccess, Result: map[string]any{"score": 0.97}},
			TaskResult{Status: StatusSuccess, Result: map[string]any{"score": 0.97}},
		},
		"failure": {
			protocol.Meta{Status: protocol.StateFailure, Result: protocol.Exception{Type: "ValueError", Args: []any{"no"}}},
			TaskResult{Status: StatusFailure, Error: "ValueError: no"},
		},
		"too large": {
			protocol.Meta{Status: protocol.StateSuccess, Result: strings.Repeat("x", 5<<20)},
			TaskResult{Status: StatusSuccess, Error: "bytes, its message included, exceeds the limit of 4194304 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, err := c.Enqueue(t.Context(), "score", nil, nil)
			require.NoError(t, err)
			before, err := c.Status(t.Context(), id)
			require.NoError(t, err)
			step.stored.TaskID, step.stored.Extra = id, map[string]any{wire.ExtraCreatedAt: before.CreatedAt}
			require.NoError(t, worker.Store(t.Context(), protocol.Meta{TaskID: id, Status: protocol.StateStarted}, results.StoreOptions{}))
			started, err := c.Status(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, StatusStarted, started.Status)

			done := make(chan error, 1)
			go func() { done <- worker.Store(t.Context(), step.stored, results.StoreOptions{}) }()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := c.Wait(ctx, id)
			require.NoError(t, err)
			require.NoError(t, <-done)
			require.False(t, got.CompletedAt.IsZero())
			require.Contains(t, got.Error, step.want.Error)
			step.want.Error, step.want.ID = got.Error, id
			step.want.CreatedAt, step.want.CompletedAt = before.CreatedAt, got.CompletedAt
			require.Equal(t, step.want, got)
		})
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Connection: connect(startBroker(t))})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Wait(ctx, "nobody")
	require.ErrorIs(t, err, context.Canceled)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	address := startBroker(t)
	c, worker := open(t, Config{Connection: connect(address)}), backendOf(t, address)
	enqueue := func() string {
		id, err := c.Enqueue(t.Context(), "score", nil, nil)
		require.NoError(t, err)
		return id
	}
	for name, test := range map[string]struct {
		states    []protocol.State
		cancelled bool
		after     Status
	}{
		"pending": {nil, true, StatusCancelled},
		"started": {[]protocol.State{protocol.StateStarted}, true, StatusCancelled},
		"success": {[]protocol.State{protocol.StateSuccess}, false, StatusSuccess},
		"failure": {[]protocol.State{protocol.StateFailure}, false, StatusFailure},
		"twice":   {[]protocol.State{protocol.StateRevoked}, true, StatusCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := enqueue()
			for _, state := range test.states {
				require.NoError(t, worker.Store(t.Context(), protocol.Meta{TaskID: id, Status: state}, results.StoreOptions{}))
			}
			before, err := c.Status(t.Context(), id)
			require.NoError(t, err)
			cancelled, err := c.Cancel(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, test.cancelled, cancelled)
			require.NoError(t, worker.Store(t.Context(), protocol.Meta{TaskID: id, Status: protocol.StateStarted}, results.StoreOptions{}))
			if test.cancelled { // the task that runs on is still cancelled
				require.NoError(t, worker.Store(t.Context(), protocol.Meta{TaskID: id, Status: protocol.StateSuccess}, results.StoreOptions{}))
				after, err := c.Status(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, test.after, after.Status)
				require.Equal(t, before.CreatedAt, after.CreatedAt)
			}
		})
	}
	_, err := c.Cancel(t.Context(), "///")
	require.ErrorIs(t, err, transport.ErrName)
}

// serve answers queries as a worker does.
func serve(t *testing.T, address string, answer transport.Answer) {
	t.Helper()
	server, err := kubemq.New(kubemq.Config{Address: address, Strategy: kubemq.StrategyDirect})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	_, err = server.Respond(t.Context(), queue, 4, answer)
	require.NoError(t, err)
}

func TestQuery(t *testing.T) {
	t.Parallel()
	address := startBroker(t)
	serve(t, address, func(ctx context.Context, body []byte) ([]byte, bool) {
		query, err := wire.DecodeQuery(body, protocol.DefaultLimits())
		if err != nil {
			t.Error(err)
			return nil, false
		}
		response := wire.Response{Status: StatusSuccess, Result: query}
		switch query.Name {
		case "fail":
			response = wire.Response{Status: StatusFailure, Error: "ValueError: no"}
		case "garbage":
			return []byte("garbage"), true
		case "sleep":
			<-ctx.Done()
			return nil, false
		}
		answer, err := wire.EncodeResponse(response)
		return answer, err == nil
	})
	c := open(t, Config{Connection: connect(address)})
	got, err := c.Query(t.Context(), "score", []any{1}, map[string]any{"x": "é"}, 0)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"name": "score", "args": []any{int64(1)}, "kwargs": map[string]any{"x": "é"}}, got)

	_, err = c.Query(t.Context(), "fail", nil, nil, patience)
	var failure *TaskError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "ValueError: no", failure.Text)
	_, err = c.Query(t.Context(), "garbage", nil, nil, patience)
	var malformed *wire.MalformedError
	require.ErrorAs(t, err, &malformed)
	_, err = c.Query(t.Context(), "sleep", nil, nil, 50*time.Millisecond)
	require.ErrorIs(t, err, transport.ErrNoAnswer)

	short := open(t, Config{Connection: connect(address), QueryTimeout: 50 * time.Millisecond})
	_, err = short.Query(t.Context(), "sleep", nil, nil, 0)
	require.ErrorIs(t, err, transport.ErrNoAnswer)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	address := startBroker(t)
	c, worker := open(t, Config{Connection: connect(address)}), open(t, Config{Connection: connect(address)})
	reports := make(chan Progress, 10)
	subscription, err := c.Progress(t.Context(), func(p Progress) { reports <- p })
	require.NoError(t, err)
	want := []Progress{{TaskID: "1", Pct: 42.5, Detail: "half"}, {TaskID: "1", Pct: 100}}
	for _, p := range want {
		body, tags, err := wire.EncodeProgress(p)
		require.NoError(t, err)
		require.NoError(t, worker.transport.Broadcast(t.Context(), queue+".progress", []byte("garbage"), nil))
		require.NoError(t, worker.transport.Broadcast(t.Context(), queue+".progress", body, tags))
		select {
		case got := <-reports:
			require.Equal(t, p, got)
		case <-time.After(patience):
			t.Fatal("no report of progress")
		}
	}
	require.NoError(t, subscription.Close())
}

func TestBrokerAway(t *testing.T) {
	t.Parallel()
	c, err := NewClient(Config{Queue: queue, Connection: connect("127.0.0.1:1")})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	id, err := c.Enqueue(ctx, "score", nil, nil)
	require.ErrorIs(t, err, transport.ErrUnconfirmed)
	require.Empty(t, id, "PENDING is not stored, so the task was not sent")
	require.Error(t, c.Start(ctx))
	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop())
	_, err = c.Status(t.Context(), "1")
	require.ErrorIs(t, err, transport.ErrStopped)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]Config{
		"queue:":           {},
		"used as it is":    {Queue: "a/b"},
		"failed task":      {Queue: "q", MaxRetries: 1, FailedTaskQueue: "a b"},
		"max retries 1025": {Queue: "q", MaxRetries: 1025, FailedTaskQueue: "f"},
		"max retries -1":   {Queue: "q", MaxRetries: -1, FailedTaskQueue: "f"},
		"expiry 25h0m0s":   {Queue: "q", ResultExpiry: 25 * time.Hour},
		"query timeout":    {Queue: "q", QueryTimeout: -1},
		"host:port":        {Queue: "q"},
		"prefix":           {Queue: "q", ResultPrefix: "a b", Connection: connect("127.0.0.1:1")},
	} {
		_, err := NewClient(config)
		require.ErrorContains(t, err, want)
	}
	_, err := NewClient(Config{})
	require.ErrorIs(t, err, transport.ErrName)
}
