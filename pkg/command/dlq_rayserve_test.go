package command

import (
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
)

// rayTask is a message as Ray Serve's adapter sends it: a body and nothing beside it.
func rayTask(id string) *pb.QueueMessage {
	return &pb.QueueMessage{
		Body: []byte(`{"task_id": "` + id + `", "task_name": "models.embed", "args": ["a \u00e9", 36893488147419103232], ` +
			`"kwargs": {"top": 3}, "created_at": "2026-11-29T12:00:00+00:00"}`),
		Policy: &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "failed"},
	}
}

// fillRayServe makes a letter that the worker wrote, one that the broker moved, one
// with numbers that only Python's JSON has, and one that is no task.
func (l *letters) fillRayServe() {
	l.t.Helper()
	l.kill("text", rayTask("ray-1"), transport.DeadLetter{
		Queue: "failed", Reason: "max-attempts", Detail: "ValueError('x')", Task: "models.embed", ID: "ray-1", Time: time.Now(),
	})
	l.send("text", rayTask("ray-2"))
	consumer, err := l.transport.Consumer("text")
	require.NoError(l.t, err)
	require.NoError(l.t, consumer.Receive(l.t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second}, func(d transport.Delivery) {
		require.NoError(l.t, d.Nack(l.t.Context()))
	}))
	require.NoError(l.t, consumer.Close())
	l.send("failed", &pb.QueueMessage{Body: []byte(`{"task_id": "ray-3", "task_name": "models.embed", "args": [NaN], "kwargs": null}`)})
	l.send("failed", &pb.QueueMessage{Body: []byte(`{"task_id": "ray-4", "task_name": "models.embed", "args": 3}`)})
}

func TestDLQOfRayServe(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fillRayServe()

	listed := runJSON[[]listedLetter](t, "dlq", "list", "failed")
	require.Equal(t, []string{"ray-1", "ray-2", "ray-3", "ray-4"}, ids(listed))
	for _, one := range listed {
		require.Equal(t, "models.embed", one.Task)
	}
	require.Equal(t, "text", listed[1].From)

	code, out, errOut := run(t, "dlq", "show", "failed", "ray-2")
	require.Equal(t, exitOK, code, errOut)
	for _, part := range []string{
		"task:        models.embed\n", "id:          ray-2\n", "from:        text\n", "reason:      (moved by the broker)\n",
		"payload (application/json):\n  {\n    \"task_id\": \"ray-2\",\n", "      36893488147419103232\n",
	} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "not decoded")
	require.Contains(t, string(runJSON[[]shownLetter](t, "dlq", "show", "failed", "ray-3")[0].Payload), "NaN")
	require.NotEmpty(t, runJSON[[]shownLetter](t, "dlq", "show", "failed", "ray-4")[0].NotDecoded)

	done := runJSON[[]doneLetter](t, "dlq", "replay", "failed", "--id", "ray-1", "--id", "ray-2")
	require.Equal(t, []string{"ray-1", "ray-2"}, doneIDs(done))
	replayed := l.in("text")
	require.Len(t, replayed, 2)
	for i, id := range []string{"ray-1", "ray-2"} {
		require.Equal(t, rayTask(id).Body, replayed[i].Body, "byte for byte")
		require.Empty(t, replayed[i].Metadata)
	}
	code, out, errOut = run(t, "queues", "peek", "text")
	require.Equal(t, exitOK, code, errOut)
	require.Regexp(t, `models\.embed +ray-1\n`, out)

	code, _, errOut = run(t, "dlq", "purge", "failed", "--task", "models.*")
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, l.in("failed"))
}

// TestReplayedRayServeTasksHaveTheirLimit, which a letter has lost.
func TestReplayedRayServeTasksHaveTheirLimit(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	t.Setenv("LOVAGE_QUEUES", "[{name: text, protocol: rayserve, max_retries: 3, failed_task_queue: failed}]")
	l.fillRayServe()
	for _, args := range [][]string{
		{"replay", "failed", "--id", "ray-1", "--id", "ray-2"}, {"edit", "failed", "ray-3", "--args", "[]", "--replay", "--to", "text"},
	} {
		code, _, errOut := run(t, append([]string{"dlq"}, args...)...)
		require.Equal(t, exitOK, code, errOut)
	}
	replayed := l.in("text")
	require.Len(t, replayed, 3)
	for _, message := range replayed {
		require.EqualValues(t, 3, message.Policy.GetMaxReceiveCount())
		require.Equal(t, "failed", message.Policy.GetMaxReceiveQueue())
	}
}

func TestDLQEditOfRayServe(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fillRayServe()
	code, out, errOut := run(t, "dlq", "edit", "failed", "ray-2", "--args", `["b"]`)
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "edited models.embed[ray-2] to failed\n", out)
	edited := l.in("failed")[3]
	require.JSONEq(t, `{"task_id": "ray-2", "task_name": "models.embed", "args": ["b"], "kwargs": {"top": 3},
		"created_at": "2026-11-29T12:00:00+00:00"}`, string(edited.Body))
	require.Empty(t, edited.Metadata)

	code, _, errOut = run(t, "dlq", "edit", "failed", "ray-1", "--kwargs", `{"top": 5}`, "--replay")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, string(l.in("text")[0].Body), `"kwargs": {"top": 5}`)
	require.Contains(t, string(l.in("text")[0].Body), `36893488147419103232`)

	for args, want := range map[string]string{
		"ray-3 --set-header retries=0": "a Ray Serve task has no headers",
		"ray-4 --args []":              "no properties",
	} {
		code, _, errOut := run(t, append([]string{"dlq", "edit", "failed"}, strings.Fields(args)...)...)
		require.Equal(t, exitFailure, code, args)
		require.Contains(t, errOut, want, args)
	}
}
