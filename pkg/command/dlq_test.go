package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// letters is a broker with dead letters.
type letters struct {
	address   string
	t         *testing.T
	client    *kubemq.Client
	transport *kubemq.Transport
}

func startLetters(t *testing.T, quirks broker.Quirks) *letters {
	t.Helper()
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0", Quirks: quirks})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Stop()) })
	t.Setenv("CELERY_BROKER_URL", "kubemq://"+b.Addr().String())
	config := kubemq.Config{Address: b.Addr().String()}
	client, err := kubemq.NewClient(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	connection, err := kubemq.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Stop()) })
	require.NoError(t, connection.Start(t.Context()))
	return &letters{address: b.Addr().String(), t: t, client: client, transport: connection}
}

// task is a message of kubemq-celery's form.
func task(t *testing.T, name, id string, options protocol.EncodeOptions) *pb.QueueMessage {
	t.Helper()
	envelope, err := protocol.EncodeMessage(&protocol.Message{
		Task: name, ID: id, Args: []any{int64(1)}, Kwargs: map[string]any{"note": "hi"}, Retries: 3,
		CustomHeaders: map[string]any{"tenant": "acme"},
	}, options)
	require.NoError(t, err)
	body, headers, err := envelope.Wire("tag-" + id)
	require.NoError(t, err)
	return &pb.QueueMessage{Body: body, Metadata: string(headers), Tags: map[string]string{"priority": "3"}}
}

// kill sends a message to a queue and makes it a dead letter, as a worker does.
func (l *letters) kill(queue string, message *pb.QueueMessage, letter transport.DeadLetter) {
	l.t.Helper()
	l.send(queue, message)
	consumer, err := l.transport.Consumer(queue)
	require.NoError(l.t, err)
	defer func() { require.NoError(l.t, consumer.Close()) }()
	killed := false
	for !killed {
		require.NoError(l.t, consumer.Receive(l.t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second}, func(d transport.Delivery) {
			require.NoError(l.t, d.DeadLetter(l.t.Context(), letter))
			killed = true
		}))
	}
}

func (l *letters) send(queue string, message *pb.QueueMessage) {
	l.t.Helper()
	channel, err := kubemq.ChannelName(queue)
	require.NoError(l.t, err)
	message.Channel = channel
	require.NoError(l.t, l.client.Send(l.t.Context(), message))
}

// in lists the messages of a channel.
func (l *letters) in(channel string) (found []*pb.QueueMessage) {
	l.t.Helper()
	require.NoError(l.t, l.client.Scan(l.t.Context(), channel, false, func(m *pb.QueueMessage) { found = append(found, m) }))
	return found
}

// fill makes the three letters that most tests look at.
func (l *letters) fill() {
	l.t.Helper()
	now := time.Now()
	l.kill("shop/orders", task(l.t, "shop.pay", "id-1", protocol.EncodeOptions{}), transport.DeadLetter{
		Queue: "failed", Reason: "rejected", Detail: "CardError('declined')", FirstError: "Timeout('slow')", Task: "shop.pay", ID: "id-1",
		Traceback: "Traceback (most recent call last):\n  File \"shop.py\"\nCardError: declined", Worker: "celery@a", Time: now.Add(-2 * time.Hour),
	})
	l.kill("shop/orders", task(l.t, "shop.ship", "id-2", protocol.EncodeOptions{}), transport.DeadLetter{
		Queue: "failed", Reason: "max-attempts", Detail: "ValueError('x')", Task: "shop.ship", ID: "id-2", Time: now.Add(-time.Minute),
	})
	l.kill("mail", task(l.t, "mail.send", "id-3", protocol.EncodeOptions{}), transport.DeadLetter{
		Queue: "failed", Reason: "rejected", Detail: "\x1b[2Jgone", Task: "mail.send", ID: "id-3", Time: now.Add(-time.Second),
	})
}

func ids(listed []listedLetter) []string {
	found := make([]string, len(listed))
	for i, l := range listed {
		found[i] = l.ID
	}
	return found
}

func doneIDs(done []doneLetter) []string {
	found := make([]string, len(done))
	for i, l := range done {
		found[i] = l.ID
	}
	return found
}

func TestDLQList(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	code, out, errOut := run(t, "dlq", "list", "failed")
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, errOut)
	require.Regexp(t, `(?s)^TIME +TASK +ID +ATTEMPTS +REASON +ERROR\n.*shop.pay +id-1 +1 +rejected +CardError\('declined'\)\n`+
		`.*shop.ship +id-2 +1 +max-attempts +ValueError\('x'\)\n.*mail.send +id-3 +1 +rejected +\\x1b\[2Jgone\n$`, out)

	first := runJSON[[]listedLetter](t, "dlq", "list", "failed")[0]
	require.NotEmpty(t, first.MessageID)
	first.MessageID, first.Time, first.Bytes = "", time.Time{}, 0
	require.Equal(t, listedLetter{
		Task: "shop.pay", ID: "id-1", Sequence: 1, From: "shop/orders", Attempts: 1, Reason: "rejected",
		Error: "CardError('declined')", FirstError: "Timeout('slow')", Worker: "celery@a",
	}, first)
	require.Len(t, l.in("failed"), 3)
}

// TestWrongArgumentsAreToldTheUsage, for all commands.
func TestWrongArgumentsAreToldTheUsage(t *testing.T) {
	for _, c := range []struct{ args, usage string }{
		{"dlq list", "worker dlq list QUEUE"}, {"dlq show failed", "worker dlq show QUEUE ID"},
		{"call", "worker call TASK"}, {"queues move a", "worker queues move FROM TO"}, {"dlq lst failed", "worker dlq"},
	} {
		code, _, errOut := run(t, strings.Fields(c.args)...)
		require.Equal(t, exitUsage, code, c.args)
		require.Contains(t, errOut, "the usage is "+c.usage)
	}
}

func TestDLQFilters(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	for flags, want := range map[string][]string{
		"":                                  {"id-1", "id-2", "id-3"},
		"--task shop.*":                     {"id-1", "id-2"},
		"--task shop.pay":                   {"id-1"},
		"--task shop":                       {},
		"--error CardError":                 {"id-1"},
		"--error Timeout":                   {"id-1"},
		"--error Value":                     {"id-2"},
		"--reason rejected":                 {"id-1", "id-3"},
		"--id id-3 --id id-1":               {"id-1", "id-3"},
		"--older-than 1h":                   {"id-1"},
		"--newer-than 1h":                   {"id-2", "id-3"},
		"--newer-than 1h --older-than 30s":  {"id-2"},
		"--limit 2":                         {"id-1", "id-2"},
		"--reason rejected --task mail.*":   {"id-3"},
		"--reason rejected --limit 1":       {"id-1"},
		"--deep --task s* --error declined": {"id-1"},
	} {
		args := append([]string{"dlq", "list", "failed"}, strings.Fields(flags)...)
		require.Equal(t, want, ids(runJSON[[]listedLetter](t, args...)), flags)
	}
	all := runJSON[[]listedLetter](t, "dlq", "list", "failed")
	require.Equal(t, []string{"id-2"}, ids(runJSON[[]listedLetter](t, "dlq", "list", "failed", "--id", all[1].MessageID)))
}

// TestDLQOfOthers: what nobody wrote anything beside is listed with what it says
// itself.
func TestDLQOfOthers(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	moved := task(t, "shop.pay", "id-1", protocol.EncodeOptions{})
	moved.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "failed"}
	l.send("orders", moved)
	consumer, err := l.transport.Consumer("orders")
	require.NoError(t, err)
	require.NoError(t, consumer.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second}, func(d transport.Delivery) {
		require.NoError(t, d.Nack(t.Context()))
	}))
	require.NoError(t, consumer.Close())
	noMetadata := task(t, "shop.ship", "id-2", protocol.EncodeOptions{})
	noMetadata.Metadata = ""
	l.send("failed", noMetadata)
	l.send("failed", task(t, "shop.old", "id-3", protocol.EncodeOptions{Protocol: protocol.Protocol1}))
	l.send("failed", &pb.QueueMessage{Body: []byte("not a task")})

	listed := runJSON[[]listedLetter](t, "dlq", "list", "failed")
	require.Equal(t, []string{"id-1", "id-2", "id-3", ""}, ids(listed))
	require.Equal(t, "shop.old", listed[2].Task)
	require.True(t, listed[0].Rerouted)
	require.Equal(t, "orders", listed[0].From)
	require.WithinDuration(t, time.Now(), listed[0].Time, time.Hour)
	code, out, errOut := run(t, "dlq", "list", "failed")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "(moved by the broker)")
	require.Contains(t, out, listed[3].MessageID)

	code, out, errOut = run(t, "dlq", "replay", "failed", "--all")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "replayed shop.pay[id-1] to orders\n", out)
	require.Equal(t, 3, strings.Count(errOut, "nothing tells which queue it comes from; --to names one"), errOut)
	require.Len(t, l.in("failed"), 3)
	restored := l.in("orders")
	require.Len(t, restored, 1)
	require.Equal(t, moved.Body, restored[0].Body)
	done := runJSON[[]doneLetter](t, "dlq", "replay", "failed", "--id", listed[3].MessageID, "--to", "else")
	require.Equal(t, []doneLetter{{Action: "replayed", MessageID: listed[3].MessageID, To: "else"}}, done)
	require.Equal(t, "not a task", string(l.in("else")[0].Body))
}

func TestDLQShow(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	l.send("failed", task(t, "shop.pack", "id-4", protocol.EncodeOptions{Serializer: "msgpack", Compression: "gzip"}))
	pickled := &pb.QueueMessage{Body: []byte(`{"body": "gASVCg==", "content-type": "application/x-python-serialize", ` +
		`"content-encoding": "binary", "headers": {"task": "shop.evil", "id": "id-5"}, "properties": {"body_encoding": "base64"}}`)}
	l.send("failed", pickled)
	l.send("failed", &pb.QueueMessage{MessageID: "x", Body: []byte("no \x1b[2J envelope")})

	code, out, errOut := run(t, "dlq", "show", "failed", "id-1")
	require.Equal(t, exitOK, code, errOut)
	for _, part := range []string{
		"task:        shop.pay\n", "id:          id-1\n", "from:        shop/orders\n", "attempts:    1\n", "reason:      rejected\n",
		"first error: Timeout('slow')\n", "last error:  CardError('declined')\n", "worker:      celery@a\n",
		"traceback:\n  Traceback (most recent call last):\n    File \"shop.py\"\n  CardError: declined\n",
		"    \"tenant\": \"acme\",\n", "payload (application/json):\n  [\n    [\n      1\n    ],\n    {\n      \"note\": \"hi\"\n    },\n",
	} {
		require.Contains(t, out, part)
	}
	code, out, errOut = run(t, "dlq", "show", "failed", "id-4")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "payload (application/x-msgpack):\n  [\n    [\n      1\n    ],\n")

	shown := runJSON[[]shownLetter](t, "dlq", "show", "failed", "id-5")
	require.Len(t, shown, 1)
	require.Equal(t, pickled.Body, shown[0].Body)
	require.Empty(t, shown[0].Payload)
	require.Contains(t, shown[0].NotDecoded, "application/x-python-serialize")
	listed := runJSON[[]listedLetter](t, "dlq", "list", "failed")
	code, out, errOut = run(t, "dlq", "show", "failed", listed[5].MessageID)
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "not decoded:\n")
	require.Contains(t, out, `no \x1b[2J envelope`)

	code, _, errOut = run(t, "dlq", "show", "failed", "id-9")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "worker: no letter in \"failed\" goes by the id \"id-9\"\n", errOut)
}

// TestDLQReplay: on the embedded broker and on what it makes of the 2023 server.
func TestDLQReplay(t *testing.T) {
	for name, quirks := range map[string]broker.Quirks{"clean": {}, "as of 2023": broker.AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			l := startLetters(t, quirks)
			l.fill()
			before := l.in("failed")

			code, out, errOut := run(t, "dlq", "replay", "failed", "--task", "shop.*", "--dry-run")
			require.Equal(t, exitOK, code, errOut)
			require.Equal(t, "would replay shop.pay[id-1] to shop/orders\nwould replay shop.ship[id-2] to shop/orders\n", out)
			require.Len(t, l.in("failed"), 3)

			done := runJSON[[]doneLetter](t, "dlq", "replay", "failed", "--task", "shop.*")
			require.Equal(t, []string{"id-1", "id-2"}, doneIDs(done))
			require.Equal(t, "shop/orders", done[0].To)
			restored := l.in("shop.orders")
			require.Len(t, restored, 2)
			for i, want := range []string{"id-1", "id-2"} {
				original := task(t, restoredTask(restored[i]), want, protocol.EncodeOptions{})
				require.JSONEq(t, string(original.Body), string(restored[i].Body))
				require.Equal(t, before[i].Body, restored[i].Body)
				require.Equal(t, original.Metadata, restored[i].Metadata)
				require.Equal(t, map[string]string{"priority": "3", "lovage-replayed": "true"}, restored[i].Tags)
			}

			left := l.in("failed")
			require.Len(t, left, 1)
			require.Equal(t, before[2].MessageID, left[0].MessageID)
			require.Equal(t, before[2].Attributes.GetSequence(), left[0].Attributes.GetSequence(), "it kept its place")
			code, out, errOut = run(t, "dlq", "replay", "failed", "--all", "--to", "shop/orders")
			require.Equal(t, exitOK, code, errOut)
			require.Equal(t, "replayed mail.send[id-3] to shop/orders\n", out)
			require.Len(t, l.in("shop.orders"), 3)
		})
	}
}

func restoredTask(m *pb.QueueMessage) string {
	task, _ := identify(m)
	return task
}

// TestDLQReplayEndsWhereTheTasksFailAgain: a letter that comes back meanwhile is not
// replayed once more.
func TestDLQReplayEndsWhereTheTasksFailAgain(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	box, err := openBox(t.Context(), l.client, "failed", "failed", false)
	require.NoError(t, err)
	uses := 0
	require.NoError(t, box.take(t.Context(), 0, func(letter) bool { return true }, func(ctx context.Context, _ letter, m *pb.QueueMessage) error {
		uses++
		again := kubemq.Restored(m)
		again.Channel = "failed"
		return l.client.Send(ctx, again)
	}))
	require.Equal(t, 3, uses)
	require.Len(t, l.in("failed"), 3)
}

// TestDLQLeavesABusyConsumerAlone: where another consumer is faster all the time,
// nothing is taken.
func TestDLQLeavesABusyConsumerAlone(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	box, err := openBox(t.Context(), l.client, "failed", "failed", false)
	require.NoError(t, err)
	consumer, err := l.transport.Consumer("failed")
	require.NoError(t, err)
	looks := 0
	err = box.take(t.Context(), 0, func(letter) bool {
		if box.seen == 1 { // it looks anew
			looks++
			require.NoError(t, consumer.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Second}, func(transport.Delivery) {}))
		}
		return true
	}, func(context.Context, letter, *pb.QueueMessage) error {
		t.Error("took a letter")
		return nil
	})
	require.ErrorIs(t, err, kubemq.ErrNotTaken)
	require.ErrorContains(t, err, `somebody else takes messages from "failed"`)
	require.Equal(t, takeAttempts, looks)
	rest, err := box.rest(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, rest, "two of three were held before the last look")
	require.NoError(t, consumer.Close())
}

func TestDLQPurge(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	code, out, errOut := run(t, "dlq", "purge", "failed", "--error", "Error", "--dry-run")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "would purge shop.pay[id-1]\nwould purge shop.ship[id-2]\n", out)
	code, out, errOut = run(t, "dlq", "purge", "failed", "--error", "Error")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "purged shop.pay[id-1]\npurged shop.ship[id-2]\n", out)
	require.Len(t, l.in("failed"), 1)
	require.Equal(t, []doneLetter{}, runJSON[[]doneLetter](t, "dlq", "purge", "failed", "--task", "none"))
	require.Equal(t, []string{"id-3"}, doneIDs(runJSON[[]doneLetter](t, "dlq", "purge", "failed", "--all")))
	require.Empty(t, l.in("failed"))
	require.Empty(t, l.in("mail"))
	code, _, errOut = run(t, "dlq", "purge", "failed", "--all")
	require.Equal(t, exitOK, code)
	require.Equal(t, "worker: no letter to work on in failed\n", errOut)
}

// brokenPipe is where nothing can be printed.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestDLQWorksWhereNothingCanBePrinted: what was sent is removed all the same.
func TestDLQWorksWhereNothingCanBePrinted(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	var errOut bytes.Buffer
	code := Run(t.Context(), registry(nil), []string{"dlq", "replay", "failed", "--all"}, brokenPipe{}, &errOut)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut.String(), io.ErrClosedPipe.Error())
	require.Empty(t, l.in("failed"))
	require.Len(t, l.in("shop.orders"), 2)
}

// TestDLQOfThousands: a peek shows 1,024; replay goes on where it ended, and --deep
// looks behind what stays.
func TestDLQOfThousands(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	const stay, leave = kubemq.MaxPeek + 10, 40
	for i := range stay + leave {
		name := "shop.stay"
		if i >= stay {
			name = "shop.go"
		}
		message := task(t, name, fmt.Sprintf("id-%d", i), protocol.EncodeOptions{})
		message.Tags["lovage-queue"] = "orders"
		l.send("failed", message)
	}
	code, out, errOut := run(t, "dlq", "replay", "failed", "--task", "shop.go")
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, out)
	require.Contains(t, errOut, fmt.Sprintf("%d more letters of failed were not looked at", stay+leave-kubemq.MaxPeek))

	code, out, errOut = run(t, "dlq", "replay", "failed", "--task", "shop.go", "--deep")
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, errOut)
	require.Equal(t, leave, strings.Count(out, "\n"))
	require.Len(t, l.in("orders"), leave)
	code, out, errOut = run(t, "dlq", "purge", "failed", "--task", "shop.stay")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, stay, strings.Count(out, "\n"), "in more than one round")
	require.Empty(t, l.in("failed"))
}

func TestDLQMistakes(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	for _, args := range [][]string{
		{"list"},
		{"list", "///"},
		{"list", "failed", "--limit", "-1"},
		{"list", "failed", "--task", "["},
		{"list", "failed", "--older-than", "-1h"},
		{"list", "celery", "--deep"},
		{"replay", "failed"},
		{"replay", "failed", "--limit", "1"},
		{"replay", "celery", "--all"},
		{"purge", "failed"},
		{"purge", "celery", "--all"},
		{"edit", "failed", "id-1"},
		{"edit", "failed", "id-1", "--args", "{}"},
		{"edit", "failed", "id-1", "--args", "[1"},
		{"edit", "failed", "id-1", "--kwargs", "[]"},
		{"edit", "failed", "id-1", "--kwargs", "{}", "--to", "orders"},
		{"edit", "failed", "id-1", "--set-header", "retries"},
		{"edit", "failed", "id-1", "--set-header", "compression=gzip"},
		{"edit", "celery", "id-1", "--args", "[]"},
	} {
		code, _, errOut := run(t, append([]string{"dlq"}, args...)...)
		require.Equal(t, exitUsage, code, "%v: %s", args, errOut)
		require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	}
	code, _, errOut := run(t, "dlq", "replay", "failed", "--all", "--to", "failed")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, `it would go back into "failed"`)
	require.Len(t, l.in("failed"), 3)
}

// headersOf decodes the headers of a message twice: those beside the body and those
// in it.
func headersOf(t *testing.T, m *pb.QueueMessage) map[string]any {
	t.Helper()
	envelope, err := protocol.DecodeEnvelope(m.Body, protocol.DefaultLimits())
	require.NoError(t, err)
	var beside map[string]any
	require.NoError(t, json.Unmarshal([]byte(m.Metadata), &beside))
	inside, err := envelope.HeadersJSON()
	require.NoError(t, err)
	require.JSONEq(t, string(inside), m.Metadata)
	return beside
}
