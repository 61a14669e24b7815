package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// producer is what Ray Serve's adapter does to a queue from outside.
type producer struct {
	t      *testing.T
	client *kubemq.Client
}

func newProducer(t *testing.T, address string) *producer {
	t.Helper()
	client, err := kubemq.NewClient(kubemq.Config{Address: address})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &producer{t: t, client: client}
}

func (p *producer) send(channel string, body []byte) {
	p.t.Helper()
	require.NoError(p.t, p.client.Send(p.t.Context(), &pb.QueueMessage{
		Channel: channel, Body: body, Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 2, MaxReceiveQueue: channel + ".failed"},
	}))
}

func (p *producer) enqueue(channel, id, task string, args ...any) {
	p.t.Helper()
	body, err := rayserve.EncodeTask(rayserve.Task{ID: id, Name: task, Args: args, CreatedAt: "2026-11-29T12:00:00+00:00"})
	require.NoError(p.t, err)
	p.send(channel, body)
}

// first waits for a message in a channel, for a minute.
func (p *producer) first(channel string) []byte {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		found, err := p.client.Peek(p.t.Context(), channel, 1, time.Second)
		require.NoError(p.t, err)
		if len(found) > 0 {
			return found[0].Body
		}
	}
	p.t.Fatalf("nothing came into %q", channel)
	return nil
}

// result waits for the end of a task.
func (p *producer) result(prefix, id string) protocol.Meta {
	p.t.Helper()
	meta, err := rayserve.DecodeResult(p.first(prefix+id), protocol.DefaultLimits())
	require.NoError(p.t, err)
	return meta
}

// TestServesCeleryAndRayServeQueues: one process, handlers for both, and what an
// operator sees of it.
func TestServesCeleryAndRayServeQueues(t *testing.T) {
	s := startService(t, registry(nil), "--", `queues=[celery,
		{name: text, protocol: rayserve, max_retries: 2, failed_task_queue: text.failed, unprocessable_task_queue: text.bad},
		{name: images, protocol: rayserve, result_channel_prefix: images-result-}]`)
	settings, _, err := config.Load(config.Source{Path: s.file})
	require.NoError(t, err)
	ray := newProducer(t, settings.EmbeddedBroker.Listen)

	ray.enqueue("text", "t-1", "test.add", int64(2), int64(3))
	ray.enqueue("images", "i-1", "test.add", int64(20), int64(22))
	ray.send("text", []byte("\x80 no JSON"))
	ray.enqueue("text", "t-2", "test.fail")
	require.EqualValues(t, 5, ray.result("rayserve-result-", "t-1").Result)
	require.EqualValues(t, 42, ray.result("images-result-", "i-1").Result)
	require.Equal(t, "\x80 no JSON", string(ray.first("text.bad")))
	require.Contains(t, string(ray.first("text.failed")), `"t-2"`)
	require.Equal(t, protocol.StateFailure, ray.result("rayserve-result-", "t-2").Status)

	code, out, errOut := run(t, "call", "--config", s.file, "test.add", "2", "3")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "5\n", out)

	s.await("queues celery, text (rayserve), images (rayserve)")
	s.await("Tasks of images that fail are delivered again without an end")
	require.Equal(t, 1, strings.Count(s.log.String(), "without an end"))
	checkRayServeDocument(t, get(t, "http://"+settings.Health.Listen+"/rayserve"))
	metrics := get(t, "http://"+settings.Health.Listen+"/metrics")
	for _, line := range []string{
		"lovage_rayserve_results_kept 0", "lovage_rayserve_result_store_retries_total 0", "lovage_messages_dropped_total 0",
		`lovage_queue_depth{queue="text.failed",role="dead_letters"} 1`, `lovage_queue_depth{queue="text.bad",role="unprocessable"} 1`,
	} {
		require.Contains(t, metrics, "\n"+line)
	}
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}

// TestRayServeResultsAreStoredWhileTheWorkerStops: their backend stops after the worker.
// That of Celery's tasks is disabled here, which concerns nobody.
func TestRayServeResultsAreStoredWhileTheWorkerStops(t *testing.T) {
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	started, release := make(chan struct{}), make(chan struct{})
	r := tasks.NewRegistry()
	tasks.Handle(r, "test.slow", func(context.Context, tasks.None) (string, error) {
		close(started)
		<-release
		return "done", nil
	})
	s := startService(t, r, "-b", "kubemq://"+b.Addr().String(), "--", "result_backend=disabled://",
		"queues=[{name: text, protocol: rayserve, max_retries: 3, failed_task_queue: text.failed}]")
	ray := newProducer(t, b.Addr().String())
	ray.enqueue("text", "t-1", "test.slow")
	<-started
	s.signal(syscall.SIGTERM)
	s.await("Warm shutdown")
	close(release)
	require.Equal(t, exitOK, s.exitCode())
	require.Equal(t, "done", ray.result("rayserve-result-", "t-1").Result)
	queues, err := ray.client.Queues(t.Context(), "text", "text.failed")
	require.NoError(t, err)
	for _, queue := range queues {
		require.Zero(t, queue.Depth, queue.Name)
	}
}

func checkRayServeDocument(t *testing.T, text string) {
	t.Helper()
	type figures struct {
		InFlight  *int           `json:"in_flight"`
		DLQDepth  *int           `json:"dlq_depth"`
		Completed map[string]int `json:"tasks_completed_total"`
		Latency   float64        `json:"consumer_poll_latency_seconds"`
	}
	var document struct {
		figures
		Healthy bool               `json:"healthy"`
		Error   string             `json:"error"`
		Queues  map[string]figures `json:"queues"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &document), text)
	require.True(t, document.Healthy, document.Error)
	require.Equal(t, map[string]int{"SUCCESS": 2, "FAILURE": 1}, document.Completed, text)
	require.Equal(t, map[string]int{"SUCCESS": 1, "FAILURE": 1}, document.Queues["text"].Completed, text)
	require.Equal(t, map[string]int{"SUCCESS": 1, "FAILURE": 0}, document.Queues["images"].Completed, text)
	require.NotNil(t, document.InFlight, text)
	require.Equal(t, 1, *document.DLQDepth, text)
	require.Positive(t, document.Latency, text)
	require.Len(t, document.Queues, 2)
}

// TestRayServeStores: queues whose results have the same settings share a backend.
func TestRayServeStores(t *testing.T) {
	queue := func(name, prefix string, expiry time.Duration, size int) config.RayServeQueue {
		return config.RayServeQueue{Name: name, ResultChannelPrefix: prefix, ResultExpiry: expiry, MaxResultSize: size}
	}
	stores := rayServeStores([]config.RayServeQueue{
		queue("a", "r-", time.Hour, 8192), queue("b", "s-", time.Hour, 8192), queue("c", "r-", time.Hour, 8192),
		queue("d", "r-", 0, 8192), queue("e", "r-", 24*time.Hour, 8192), queue("f", "r-", time.Hour, 9000),
	})
	shared := make([]string, len(stores))
	for i, store := range stores {
		shared[i] = fmt.Sprint(store.queues)
		require.Zero(t, store.counts(), "no backend yet")
	}
	require.Equal(t, []string{"[a c]", "[b]", "[d e]", "[f]"}, shared)
}

func TestCheckTellsProtocols(t *testing.T) {
	code, out, errOut := run(t, "check", `queues=[celery, {name: images, protocol: rayserve},
		{name: text, protocol: rayserve, max_retries: 3, failed_task_queue: failed, unprocessable_task_queue: bad}]`)
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "queue celery: celery\n"+
		"queue images: rayserve, a task that fails comes again without an end, bad messages are dropped\n"+
		"queue text: rayserve, a task that has failed 3 times goes to failed, bad messages go to bad\n")
}

func TestCheckRayServeNames(t *testing.T) {
	for queues, want := range map[string]string{
		"{name: a/b, protocol: rayserve}":                                        `queues.a/b: "a/b" is the channel "a.b" on KubeMQ`,
		"{name: ///, protocol: rayserve}":                                        "///",
		"{name: a, protocol: rayserve, failed_task_queue: a b}":                  `queues.a.failed_task_queue: "a b" is the channel "a_b" on KubeMQ`,
		"{name: a, protocol: rayserve, unprocessable_task_queue: a#}":            "queues.a.unprocessable_task_queue: ",
		"{name: a, protocol: rayserve, result_channel_prefix: a/}":               `queues.a.result_channel_prefix: "a/id" is the channel "a.id"`,
		"{name: a.b, protocol: rayserve}, a/b":                                   `queues: "a.b" and "a/b" are one channel and can't speak two protocols`,
		"{name: a, protocol: rayserve, failed_task_queue: b.c}, b/c":             `queues.a.failed_task_queue: "b.c" is the channel "b.c", which this worker consumes`,
		"{name: a, protocol: rayserve, result_channel_prefix: cel}, celery":      `the queue "celery" begins with "cel"`,
		"{name: a, protocol: rayserve, result_channel_prefix: celery-}":          `the prefix "celery-result-" of other results begins with "celery-"`,
		"{name: rayserve-result-a, protocol: rayserve}":                          `the queue "rayserve-result-a" begins with "rayserve-result-"`,
		"{name: a, protocol: rayserve, failed_task_queue: rayserve-result-a}":    `the queue "rayserve-result-a" begins with`,
		"{name: celery_unprocessable, protocol: rayserve}, celery unprocessable": "are one channel",
	} {
		code, _, errOut := run(t, "check", "queues=["+queues+"]")
		require.Equal(t, exitUsage, code, queues)
		require.Contains(t, errOut, want, queues)
	}
}

// TestCheckRayServePrefixes: an id that begins like the longer prefix would be another task's.
func TestCheckRayServePrefixes(t *testing.T) {
	nested := "queues=[{name: a, protocol: rayserve, result_channel_prefix: r-}, {name: b, protocol: rayserve, result_channel_prefix: r-b-}]"
	code, _, errOut := run(t, "check", nested)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, `queues.a.result_channel_prefix: the prefix "r-b-" of other results begins with "r-"`)
}
