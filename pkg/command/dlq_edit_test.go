package command

import (
	"strings"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
)

// decoded is the task message in what is in a queue.
func decoded(t *testing.T, m *pb.QueueMessage) *protocol.Message {
	t.Helper()
	envelope, err := protocol.DecodeEnvelope(m.Body, protocol.DefaultLimits())
	require.NoError(t, err)
	message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Limits: protocol.DefaultLimits()})
	require.NoError(t, err)
	return message
}

func TestDLQEdit(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.fill()
	code, out, errOut := run(t, "dlq", "edit", "failed", "id-1", "--args", "[36893488147419103232, 1.5]", "--set-header", "tenant=other")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "edited shop.pay[id-1] to failed\n", out)
	found := l.in("failed")
	require.Len(t, found, 3)
	edited := found[2] // at the end
	message := decoded(t, edited)
	require.Equal(t, "[36893488147419103232, 1.5]", protocol.Repr(message.Args, 0), "exactly")
	require.Equal(t, map[string]any{"note": "hi"}, message.Kwargs)
	require.Equal(t, 3, message.Retries)
	headers := headersOf(t, edited)
	require.Equal(t, "(36893488147419103232, 1.5)", headers["argsrepr"])
	require.Equal(t, "{'note': 'hi'}", headers["kwargsrepr"])
	require.Equal(t, "other", headers["tenant"])
	require.Equal(t, "shop/orders", letterOf(edited).From)
	require.Equal(t, 1, letterOf(edited).Attempts)

	done := runJSON[[]doneLetter](t, "dlq", "edit", "failed", "id-1", "--kwargs", `{"a": 1}`, "--set-header", "retries=0",
		"--set-header", "task=shop.charge", "--replay")
	require.Len(t, done, 1)
	require.Equal(t, "shop/orders", done[0].To)
	require.Equal(t, "shop.charge", done[0].Task)
	require.Len(t, l.in("failed"), 2)
	replayed := l.in("shop.orders")
	require.Len(t, replayed, 1)
	require.Equal(t, map[string]string{"priority": "3", "lovage-replayed": "true"}, replayed[0].Tags)
	message = decoded(t, replayed[0])
	require.Equal(t, "shop.charge", message.Task)
	require.Zero(t, message.Retries)
	require.Equal(t, map[string]any{"a": int64(1)}, message.Kwargs)
	require.Equal(t, "{'a': 1}", message.KwargsRepr)
}

func TestDLQEditOfProtocol1(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.send("failed", task(t, "shop.old", "id-1", protocol.EncodeOptions{Protocol: protocol.Protocol1}))
	code, _, errOut := run(t, "dlq", "edit", "failed", "id-1", "--args", "[2]", "--kwargs", "{}", "--replay", "--to", "orders")
	require.Equal(t, exitOK, code, errOut)
	message := decoded(t, l.in("orders")[0])
	require.Equal(t, protocol.Protocol1, message.Protocol)
	require.Equal(t, []any{int64(2)}, message.Args)
	require.Empty(t, message.Kwargs)
	require.Equal(t, 3, message.Retries)
}

func TestDLQEditRefuses(t *testing.T) {
	l := startLetters(t, broker.Quirks{})
	l.send("failed", task(t, "t", "packed", protocol.EncodeOptions{Serializer: "msgpack"}))
	l.send("failed", task(t, "t", "small", protocol.EncodeOptions{Compression: "gzip"}))
	l.send("failed", task(t, "t", "twin", protocol.EncodeOptions{}))
	l.send("failed", task(t, "t", "twin", protocol.EncodeOptions{}))
	l.send("failed", &pb.QueueMessage{Body: []byte(`{}`), Metadata: `{"task": "t", "id": "bad"}`})
	for args, want := range map[string]string{
		"packed --args []":             "its body is application/x-msgpack",
		"small --args []":              "its body is compressed (application/x-gzip)",
		"twin --args []":               "2 letters in \"failed\" go by the id \"twin\"",
		"bad --args []":                "no properties",
		"none --args []":               "no letter in \"failed\"",
		"packed --args [] --replay":    "nothing tells which queue it comes from",
		"twin --args [] --replay=true": "2 letters",
	} {
		code, _, errOut := run(t, append([]string{"dlq", "edit", "failed"}, strings.Fields(args)...)...)
		require.Equal(t, exitFailure, code, args)
		require.Contains(t, errOut, want, args)
	}
	twin := runJSON[[]listedLetter](t, "dlq", "list", "failed", "--id", "twin")[1]
	code, _, errOut := run(t, "dlq", "edit", "failed", twin.MessageID, "--set-header", "retries=many")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "no worker could read it then")
	require.Len(t, l.in("failed"), 5)
}
