package command

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// startQueues runs a broker with two published tasks in the queue "orders", and
// returns its URL.
func startQueues(t *testing.T) (url string) {
	t.Helper()
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	url = "kubemq://" + b.Addr().String()
	t.Setenv("CELERY_BROKER_URL", url)
	for i := range 2 {
		code, _, errOut := run(t, "call", "-Q", "orders", "--no-wait", "test.add", strconv.Itoa(i), "1")
		require.Equal(t, exitOK, code, errOut)
	}
	return url
}

// runJSON runs a command that prints JSON.
func runJSON[T any](t *testing.T, args ...string) (found T) {
	t.Helper()
	code, out, errOut := run(t, append(args, "--json")...)
	require.Equal(t, exitOK, code, errOut)
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	return found
}

func TestQueues(t *testing.T) {
	url := startQueues(t)
	code, out, errOut := run(t, "queues")
	require.Equal(t, exitOK, code, errOut)
	require.Regexp(t, `(?s)^QUEUE +DEPTH +SENT +DELIVERED +CONSUMERS\n.*orders +2 +2 +0 +0\n`, out)
	require.Contains(t, runJSON[[]listedQueue](t, "queues"), listedQueue{Name: "orders", Depth: 2, Sent: 2})

	for _, queue := range []string{"celery-result-1", "lovage.attempts.1", "lovage.probe.1"} {
		code, _, errOut = run(t, "call", "-Q", queue, "--no-wait", "test.add", "1", "1")
		require.Equal(t, exitOK, code, errOut)
	}
	_, out, errOut = run(t, "queues")
	require.Equal(t, 2, strings.Count(out, "\n"), out)
	require.Contains(t, errOut, "and 3 queues of results", "a call leaves none of its own")
	_, out, errOut = run(t, "queues", "--all")
	require.Contains(t, out, "celery-result-")
	require.Empty(t, errOut)

	code, out, errOut = run(t, "queues", "peek", "orders", "--limit", "1")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, 2, strings.Count(out, "\n"), out)
	require.Contains(t, out, "test.add")
	before := runJSON[[]peekedMessage](t, "queues", "peek", "orders")
	require.Len(t, before, 2)

	moved := runJSON[map[string]any](t, "queues", "move", "orders", "kept/back")
	require.Equal(t, map[string]any{"from": "orders", "to": "kept.back", "moved": 2.0}, moved)
	after := runJSON[[]peekedMessage](t, "queues", "peek", "kept/back")
	require.Len(t, after, 2)
	for i := range after {
		require.Equal(t, before[i].Body, after[i].Body)
		require.Equal(t, before[i].Metadata, after[i].Metadata)
		require.Equal(t, before[i].Tags, after[i].Tags)
	}
	require.Empty(t, runJSON[[]peekedMessage](t, "queues", "peek", "orders"))

	t.Setenv("CELERY_BROKER_URL", "kubemq://127.0.0.1:1")
	code, out, errOut = run(t, "queues", "purge", "kept/back", "-b", url)
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "2 messages purged from kept.back\n", out)
	code, out, errOut = run(t, "queues", "move", "kept/back", "orders", "-b", url)
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "0 messages moved from kept.back to orders\n", out)
}

func TestQueuesMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"peek"},
		{"peek", "///"},
		{"peek", "q", "--limit", "0"},
		{"peek", "q", "--limit", "1025"},
		{"purge", "a", "b"},
		{"move", "a/b", "a.b"},
		{"move", "a", "b", "--limit", "-1"},
		{"-b", "redis://localhost"},
	} {
		code, _, errOut := run(t, append([]string{"queues"}, args...)...)
		require.Equal(t, exitUsage, code, "%v", args)
		require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	}
}

func TestPrintable(t *testing.T) {
	require.Equal(t, "tâche.1", printable("tâche.1"))
	require.Equal(t, `"a\x1b[2Jb"`, printable("a\x1b[2Jb"))
	task, id := taskOf(&kubemq.QueueMessage{Metadata: `{"task": "t", "id": "1"}`})
	require.Equal(t, "t 1", task+" "+id)
	task, id = taskOf(&kubemq.QueueMessage{Metadata: "not json"})
	require.Equal(t, "- -", task+" "+id)
}
