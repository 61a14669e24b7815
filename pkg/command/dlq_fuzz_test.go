package command

import (
	"strings"
	"testing"
	"unicode"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// FuzzShownLetter: whatever a stranger sent, listing and showing it ends, and does
// nothing to a terminal.
func FuzzShownLetter(f *testing.F) {
	f.Add([]byte(`{"body": "W10=", "content-type": "application/json", "headers": {"task": "t", "id": "1"}, "properties": {"body_encoding": "base64"}}`),
		`{"task": "t", "id": "1"}`, "ValueError('\x1b[2J')", "2026-11-29T12:00:00Z")
	f.Add([]byte("\x80\x04"), "[", "\u202e", "never")
	f.Add([]byte(`{"body": "{}", "headers": {"compression": "application/x-gzip"}, "properties": {}}`), `{"task": 3}`, "", "")
	f.Add([]byte(`{"task_id": "1\u001b", "task_name": "t", "args": [NaN], "kwargs": {}}`), "", "", "")
	f.Fuzz(func(t *testing.T, body []byte, metadata, detail, when string) {
		message := &pb.QueueMessage{Body: body, Metadata: metadata, Tags: map[string]string{
			"lovage-detail": detail, "lovage-time": when, "lovage-traceback": detail, "lovage-queue": metadata,
		}}
		l, shown := letterOf(message), shownOf(message)
		requirePlain(t, l.name())
		requirePlain(t, cell(l.Detail, widestError))
		require.LessOrEqual(t, len([]rune(cell(l.Detail, widestError))), widestError)
		for line := range strings.SplitSeq(string(shown.text()), "\n") {
			requirePlain(t, line)
		}
		(&letterFilter{task: "*", errorText: "x", ids: []string{"1"}}).wants(l)
	})
}

func requirePlain(t *testing.T, line string) {
	t.Helper()
	for _, r := range line {
		require.True(t, unicode.IsPrint(r), "%q", line)
	}
}

// FuzzLetterEdit: an edited message says what was asked for, whatever it was before.
func FuzzLetterEdit(f *testing.F) {
	f.Add([]byte(`{"body": "W1tdLCB7fSwgbnVsbF0=", "content-type": "application/json", "headers": {"task": "t", "id": "1", "argsrepr": ""}, "properties": {"body_encoding": "base64"}}`), true)
	f.Add([]byte(`{"body": "{\"task\": \"t\", \"id\": \"1\", \"args\": [], \"kwargs\": {}}", "content-type": "application/json", "properties": {}}`), false)
	f.Add([]byte(`{"body": "[]", "content-type": "application/json", "properties": {}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, kwargs bool) {
		edit := letterEdit{args: []any{int64(7)}, headers: map[string]any{"mine": "x"}}
		if kwargs {
			edit.kwargs = map[string]any{"k": "v"}
		}
		content, err := edit.rewrite(body)
		if err != nil {
			return
		}
		envelope, err := protocol.DecodeEnvelope(content.body, protocol.DefaultLimits())
		require.NoError(t, err)
		message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Limits: protocol.DefaultLimits()})
		require.NoError(t, err)
		require.Equal(t, edit.args, message.Args)
		if kwargs {
			require.Equal(t, edit.kwargs, message.Kwargs)
		}
		require.Equal(t, "x", envelope.Headers["mine"])
		require.Equal(t, message.Task, content.task)
		require.Equal(t, message.ID, content.id)
	})
}
