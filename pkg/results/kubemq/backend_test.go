package kubemq

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const patience = time.Minute

func startBroker(t *testing.T, config broker.Config) string {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	b, err := broker.New(config)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	return b.Addr().String()
}

func open(tb testing.TB, address string, hooks transport.Hooks) *Backend {
	tb.Helper()
	b, err := New(Config{Connection: kubemq.Config{Address: address, Hooks: hooks}})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.Stop()) })
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	require.NoError(tb, b.Start(ctx))
	return b
}

func meta(id string, state protocol.State) protocol.Meta {
	m := protocol.Meta{TaskID: id, Status: state}
	if state.Ready() {
		m.Result, m.DateDone = "result", time.Date(2026, 11, 29, 15, 18, 39, 413877000, time.UTC)
	}
	return m
}

func store(t *testing.T, b *Backend, m protocol.Meta, options results.StoreOptions) {
	t.Helper()
	require.NoError(t, b.Store(t.Context(), m, options))
}

// stored are the messages of a task, as any reader can peek at them.
func stored(t *testing.T, b *Backend, id string) []*pb.QueueMessage {
	t.Helper()
	messages, err := b.client.Peek(t.Context(), DefaultPrefix+id, 10, time.Second)
	require.NoError(t, err)
	return messages
}

func TestFormatIsKubemqCelerys(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	done := meta("5f3b", protocol.StateSuccess)
	done.ParentID, done.Result = "parent", map[string]any{"sum": int64(5)}
	store(t, b, done, results.StoreOptions{First: true, Expires: 1500 * time.Millisecond})

	messages := stored(t, b, "5f3b")
	require.Len(t, messages, 1)
	message := messages[0]
	require.JSONEq(t, `{"task_id": "5f3b", "status": "SUCCESS"}`, message.Metadata)
	require.JSONEq(t, `{"task_id": "5f3b", "status": "SUCCESS", "result": {"sum": 5}, "traceback": null, "children": [],
		"date_done": "2026-11-29T15:18:39.413877+00:00", "group_id": null, "parent_id": "parent"}`, string(message.Body))
	require.EqualValues(t, 2, message.Policy.ExpirationSeconds, "rounded up")

	got, err := b.Fetch(t.Context(), "5f3b")
	require.NoError(t, err)
	require.Equal(t, protocol.StateSuccess, got.Status)
	require.Equal(t, done.Result, got.Result)
	require.True(t, done.DateDone.Equal(got.DateDone))
	require.Equal(t, "parent", got.ParentID)
	require.Empty(t, got.GroupID)
}

func TestFirstIsOneWrite(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	store(t, b, meta("a", protocol.StateStarted), results.StoreOptions{First: true})
	store(t, b, meta("a", protocol.StateFailure), results.StoreOptions{First: true})
	require.Len(t, stored(t, b, "a"), 2, "nothing is removed")
	got, err := b.Fetch(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, protocol.StateFailure, got.Status, "the newest")
}

func TestStateReplacesOlderOnes(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	for i, state := range []protocol.State{
		protocol.StateStarted, protocol.StateRetry, protocol.StateStarted, protocol.StateFailure,
	} {
		store(t, b, meta("a", state), results.StoreOptions{First: i == 0})
		messages := stored(t, b, "a")
		require.Len(t, messages, 1)
		require.Equal(t, state, status(celery{}, messages[0], "a"))
	}
}

// TestLeftovers: workers died between sending and removing.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	for range 9 {
		store(t, b, meta("a", protocol.StateStarted), results.StoreOptions{First: true})
	}
	store(t, b, meta("a", protocol.StateRetry), results.StoreOptions{})
	messages := stored(t, b, "a")
	require.Len(t, messages, 1)
	require.Equal(t, protocol.StateRetry, status(celery{}, messages[0], "a"))
}

func TestSuccessIsNeverReplaced(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	first := meta("a", protocol.StateSuccess)
	first.Result = "the first"
	store(t, b, meta("a", protocol.StateStarted), results.StoreOptions{First: true})
	store(t, b, first, results.StoreOptions{})
	for _, state := range []protocol.State{protocol.StateFailure, protocol.StateStarted, protocol.StateSuccess} {
		store(t, b, meta("a", state), results.StoreOptions{})
		require.Len(t, stored(t, b, "a"), 1)
		got, err := b.Fetch(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, protocol.StateSuccess, got.Status)
		require.Equal(t, "the first", got.Result)
	}
}

// rank orders the states of the test below.
var rank = map[protocol.State]int{
	protocol.StateStarted: 1, protocol.StateRetry: 2, protocol.StateFailure: 3, protocol.StateSuccess: 4,
}

// TestStateNeverGoesBackwards is for both kinds of readers: one that takes the
// oldest message, as kubemq-celery does, and Fetch.
func TestStateNeverGoesBackwards(t *testing.T) {
	t.Parallel()
	neverGoesBackwards(t, startBroker(t, broker.Config{}))
}

func neverGoesBackwards(t *testing.T, address string) {
	t.Helper()
	b, id := open(t, address, transport.Hooks{}), fmt.Sprint("backwards-", time.Now().UnixNano())
	store(t, b, meta(id, protocol.StateStarted), results.StoreOptions{First: true})
	readers := map[string]func(reader *Backend) (protocol.State, error){
		"oldest": func(reader *Backend) (protocol.State, error) {
			messages, err := reader.client.Peek(t.Context(), DefaultPrefix+id, 1, time.Second)
			if err != nil || len(messages) == 0 {
				return "", fmt.Errorf("nothing is there: %w", err)
			}
			return status(celery{}, messages[0], id), nil
		},
		"fetch": func(reader *Backend) (protocol.State, error) {
			got, err := reader.Fetch(t.Context(), id)
			return got.Status, err
		},
	}
	var reading sync.WaitGroup
	for name, read := range readers {
		reader := open(t, address, transport.Hooks{})
		reading.Go(func() {
			last := protocol.StateStarted
			for end := time.Now().Add(patience); last != protocol.StateSuccess; {
				if time.Now().After(end) {
					t.Errorf("%s: state %s after %s", name, last, patience)
					return
				}
				state, err := read(reader)
				if err != nil {
					t.Errorf("%s: after %s: %v", name, last, err)
					return
				}
				if rank[state] < rank[last] {
					t.Errorf("%s: %s after %s", name, state, last)
				}
				last = state
			}
		})
	}
	for _, state := range []protocol.State{protocol.StateRetry, protocol.StateFailure, protocol.StateSuccess} {
		store(t, b, meta(id, state), results.StoreOptions{})
	}
	reading.Wait()
}

// TestWritersAtOnce: duplicates of one task end at the same time.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	address := startBroker(t, broker.Config{})
	b := open(t, address, transport.Hooks{})
	store(t, b, meta("a", protocol.StateStarted), results.StoreOptions{First: true})
	var writing sync.WaitGroup
	for range 4 {
		writer := open(t, address, transport.Hooks{})
		writing.Go(func() {
			if err := writer.Store(t.Context(), meta("a", protocol.StateSuccess), results.StoreOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	got, err := b.Fetch(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, protocol.StateSuccess, got.Status)
	for _, message := range stored(t, b, "a") {
		require.Equal(t, protocol.StateSuccess, status(celery{}, message, "a"))
	}
}

// TestFailuresAtOnce: a state that another writer has removed needs no second
// look.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	address := startBroker(t, broker.Config{})
	var writing sync.WaitGroup
	for range 4 {
		writer := open(t, address, transport.Hooks{})
		writing.Go(func() {
			for range 5 {
				if err := writer.Store(t.Context(), meta("a", protocol.StateFailure), results.StoreOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	require.Len(t, stored(t, open(t, address, transport.Hooks{}), "a"), 1)
}

func TestLongestExpiryIsLearnt(t *testing.T) {
	t.Parallel()
	var notes []string
	b := open(t, startBroker(t, broker.Config{MaxExpiration: 20_000 * time.Second}), transport.Hooks{
		Note: func(text string) { notes = append(notes, text) },
	})
	store(t, b, meta("a", protocol.StateSuccess), results.StoreOptions{First: true})
	require.EqualValues(t, 10_800, stored(t, b, "a")[0].Policy.ExpirationSeconds, "86400, 43200, 21600, 10800")
	require.Len(t, notes, 3)
	store(t, b, meta("b", protocol.StateSuccess), results.StoreOptions{First: true, Expires: 1000 * time.Hour})
	require.EqualValues(t, 10_800, stored(t, b, "b")[0].Policy.ExpirationSeconds)
	require.Len(t, notes, 3, "it is known now")
}

func TestNotFoundAndForget(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	_, err := b.Fetch(t.Context(), "a")
	require.ErrorIs(t, err, results.ErrNotFound)
	store(t, b, meta("a", protocol.StateSuccess), results.StoreOptions{})
	require.NoError(t, b.Forget(t.Context(), "a"))
	_, err = b.Fetch(t.Context(), "a")
	require.ErrorIs(t, err, results.ErrNotFound)
}

// TestOtherTask: ids that give the same queue name.
func TestOtherTask(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	store(t, b, meta("a.b", protocol.StateSuccess), results.StoreOptions{First: true})
	_, err := b.Fetch(t.Context(), "a/b")
	require.ErrorIs(t, err, results.ErrNotFound)
}

func TestCorruptResult(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	corrupt := &pb.QueueMessage{Channel: DefaultPrefix + "a", Body: []byte(`{"task_id":`)}
	require.NoError(t, b.client.Send(t.Context(), corrupt))
	_, err := b.Fetch(t.Context(), "a")
	var decoding *protocol.DecodeError
	require.ErrorAs(t, err, &decoding)
	_, err = b.Wait(t.Context(), "a")
	require.ErrorAs(t, err, &decoding)
	store(t, b, meta("a", protocol.StateFailure), results.StoreOptions{})
	got, err := b.Fetch(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, protocol.StateFailure, got.Status)
}

func TestWait(t *testing.T) {
	t.Parallel()
	address := startBroker(t, broker.Config{})
	b, writer := open(t, address, transport.Hooks{}), open(t, address, transport.Hooks{})
	got := make(chan protocol.Meta, 1)
	go func() {
		meta, err := b.Wait(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		got <- meta
	}()
	store(t, writer, meta("a", protocol.StateStarted), results.StoreOptions{First: true})
	store(t, writer, meta("a", protocol.StateRetry), results.StoreOptions{})
	begun := time.Now()
	store(t, writer, meta("a", protocol.StateSuccess), results.StoreOptions{})
	require.Equal(t, protocol.StateSuccess, (<-got).Status)
	require.Less(t, time.Since(begun), 3*time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Wait(ctx, "never")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestNames(t *testing.T) {
	t.Parallel()
	b, err := New(Config{Connection: kubemq.Config{Address: "127.0.0.1:1"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Stop()) }()
	for _, id := range []string{"", "///", strings.Repeat("x", 250)} {
		require.ErrorIs(t, b.Store(t.Context(), meta(id, protocol.StateSuccess), results.StoreOptions{}), transport.ErrName)
		_, err := b.Fetch(t.Context(), id)
		require.ErrorIs(t, err, transport.ErrName)
		_, err = b.Wait(t.Context(), id)
		require.ErrorIs(t, err, transport.ErrName)
		require.ErrorIs(t, b.Forget(t.Context(), id), transport.ErrName)
	}
	for _, prefix := range []string{".", "a b", "ü"} {
		_, err := New(Config{Prefix: prefix, Connection: kubemq.Config{Address: "127.0.0.1:1"}})
		require.Error(t, err, prefix)
	}
	_, err = New(Config{MaxExpires: time.Millisecond, Connection: kubemq.Config{Address: "127.0.0.1:1"}})
	require.Error(t, err)
	_, err = New(Config{})
	require.ErrorContains(t, err, "host:port")
}

// TestBrokerAway: the caller learns that nothing is certain, within its time.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	b, err := New(Config{Connection: kubemq.Config{Address: "127.0.0.1:1"}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Store(ctx, meta("a", protocol.StateSuccess), results.StoreOptions{}), transport.ErrUnconfirmed)
	require.Error(t, b.Start(ctx))
	require.NoError(t, b.Stop())
	require.NoError(t, b.Stop())
	require.ErrorIs(t, b.Store(t.Context(), meta("a", protocol.StateSuccess), results.StoreOptions{}), transport.ErrStopped)
}

func FuzzNewest(f *testing.F) {
	f.Add([]byte(`{"task_id":"a","status":"SUCCESS","result":1}`), `{"task_id":"a","status":"SUCCESS"}`)
	f.Add([]byte(`{"task_id":"b","status":"STARTED"}`), "")
	f.Add([]byte(`[`), `{"status":7}`)
	f.Fuzz(func(t *testing.T, body []byte, beside string) {
		message := &pb.QueueMessage{Body: body, Metadata: beside}
		got, err := newest(celery{}, []*pb.QueueMessage{message}, "a")
		if err == nil {
			require.Equal(t, "a", got.TaskID)
			require.NotEmpty(t, got.Status)
		}
		if json.Valid([]byte(beside)) {
			_ = status(celery{}, message, "a")
		}
	})
}

// TestFetchFindsTheLaterSuccess: a worker stored FAILURE and died before its ack,
// another ran the message and took its own state for the first.
func TestFetchFindsTheLaterSuccess(t *testing.T) {
	t.Parallel()
	b := open(t, startBroker(t, broker.Config{}), transport.Hooks{})
	store(t, b, meta("a", protocol.StateFailure), results.StoreOptions{First: true})
	store(t, b, meta("a", protocol.StateSuccess), results.StoreOptions{First: true})
	got, err := b.Fetch(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, protocol.StateSuccess, got.Status)
}
