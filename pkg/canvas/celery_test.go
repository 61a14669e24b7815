package canvas

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// readJSON reads a file of testdata with numbers as they come over the wire.
func readJSON(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", path))
	require.NoError(t, err)
	v, err := protocol.DecodeJSON(data, protocol.DefaultLimits())
	require.NoError(t, err)
	return v.(map[string]any)
}

func list(v any) []any { items, _ := v.([]any); return items }

func mapping(v any) map[string]any { m, _ := v.(map[string]any); return m }

// decode is the message of an envelope, as a worker gets it.
func decode(t *testing.T, envelope *protocol.Envelope) *protocol.Message {
	t.Helper()
	accept, err := protocol.NewAccept([]string{"json"})
	require.NoError(t, err)
	m, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Accept: accept, Limits: protocol.DefaultLimits()})
	require.NoError(t, err)
	return m
}

// overTheWire is what the receiver of a message decodes.
func overTheWire(t *testing.T, m *protocol.Message) *protocol.Message {
	t.Helper()
	envelope, err := protocol.EncodeMessage(m, protocol.EncodeOptions{})
	require.NoError(t, err)
	return decode(t, envelope)
}

var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// nothing are the options that a group gets where it has no root.
var nothing = regexp.MustCompile(`"(?:parent|root)_id": null, `)

// canonical writes messages and children down with names in the place of ids, in
// the order in which they appear, but for those that are known.
func canonical(t *testing.T, messages []*protocol.Message, children []any, known string) string {
	t.Helper()
	var text strings.Builder
	for _, m := range messages {
		m.Origin, m.ArgsRepr, m.KwargsRepr = "", "", "" // Celery shows an immutable signature's args as a list
		envelope, err := protocol.EncodeMessage(m, protocol.EncodeOptions{})
		require.NoError(t, err)
		headers, err := envelope.HeadersJSON()
		require.NoError(t, err)
		body := nothing.ReplaceAll(envelope.Body, nil)
		fmt.Fprintf(&text, "%s priority %d reply_to %q\n  %s\n  %s\n", m.Queue, m.Priority, m.ReplyTo, headers, body)
	}
	tuples, err := protocol.EncodeJSON(children)
	require.NoError(t, err)
	fmt.Fprintf(&text, "children %s\n", tuples)
	names := map[string]string{}
	return anID.ReplaceAllStringFunc(text.String(), func(id string) string {
		if strings.Contains(known, id) {
			return id
		}
		if names[id] == "" {
			names[id] = fmt.Sprintf("<%d>", len(names))
		}
		return names[id]
	})
}

// routes are those of generate.py.
var routes = NewRoutes([][]Route{
	{{"shop.exact", map[string]any{"queue": "q.exact"}}, {"shop.*", map[string]any{"queue": "q.glob", "priority": int64(4)}}},
	{{"lib.[ab]*", map[string]any{"queue": "q.class"}}, {"shop.exact", map[string]any{"queue": "never"}}},
})

// TestAsCelery publishes what a Celery 5.7 worker published after the same task:
// the same messages to the same queues, and the same children.
func TestAsCelery(t *testing.T) {
	cases := list(readJSON(t, "continuations.json")["cases"])
	require.Greater(t, len(cases), 45)
	for _, v := range cases {
		c := mapping(v)
		t.Run(c["name"].(string), func(t *testing.T) {
			inherit, _ := c["inherit"].(bool)
			publisher := &Publisher{Routes: routes, DefaultQueue: "celery", InheritPriority: inherit}
			m := parent(t, c)
			require.NoError(t, publisher.Check(m))
			made, err := publisher.Success(m, c["result"], time.Now())
			if c["failing"] == true {
				made, err = publisher.Failure(m, time.Now())
				made.Children = nil // the failure is stored before
			}
			require.NoError(t, err)

			sent := list(c["messages"])
			want, got := make([]*protocol.Message, 0, len(sent)), make([]*protocol.Message, 0, len(sent))
			for _, v := range sent {
				want = append(want, celerysMessage(t, mapping(v)))
			}
			for _, outgoing := range made.Messages {
				got = append(got, overTheWire(t, outgoing.Message))
			}
			known, err := protocol.EncodeJSON([]any{c["embed"], m.ID, m.RootID})
			require.NoError(t, err)
			children := made.Children
			if children == nil {
				children = []any{}
			}
			require.Equal(t, canonical(t, want, list(c["children"]), string(known)), canonical(t, got, children, string(known)))
			for i, v := range sent {
				checkHow(t, mapping(mapping(v)["properties"]), made.Messages[i])
			}
		})
	}
}

// parent is the message of the task that was traced.
func parent(t *testing.T, c map[string]any) *protocol.Message {
	t.Helper()
	root, _ := c["root"].(string)
	body, err := protocol.EncodeJSON([]any{[]any{}, map[string]any{}, c["embed"]})
	require.NoError(t, err)
	return decode(t, &protocol.Envelope{
		Body: body, ContentType: "application/json", ContentEncoding: "utf-8",
		Headers:    map[string]any{"task": "proj.value", "id": "11111111-1111-4111-8111-111111111111", "root_id": root},
		Properties: protocol.Properties{Priority: int(c["priority"].(int64)), BodyEncoding: "base64"},
	})
}

func celerysMessage(t *testing.T, sent map[string]any) *protocol.Message {
	t.Helper()
	body, err := protocol.EncodeJSON(sent["body"])
	require.NoError(t, err)
	properties := mapping(sent["properties"])
	envelope := &protocol.Envelope{
		Body: body, ContentType: "application/json", ContentEncoding: "utf-8", Headers: mapping(sent["headers"]),
		Properties: protocol.Properties{DeliveryInfo: protocol.DeliveryInfo{RoutingKey: sent["queue"].(string)}},
	}
	envelope.Properties.ReplyTo, _ = properties["reply_to"].(string)
	envelope.Properties.CorrelationID, _ = properties["correlation_id"].(string)
	if priority, ok := properties["priority"].(int64); ok {
		envelope.Properties.Priority = int(priority)
	}
	return decode(t, envelope)
}

// checkHow compares what a signature says about how it is published.
func checkHow(t *testing.T, properties map[string]any, outgoing Outgoing) {
	t.Helper()
	serializer, _ := properties["~serializer"].(string)
	compression, _ := properties["~compression"].(string)
	require.Equal(t, serializer, outgoing.Serializer)
	require.Equal(t, compression, outgoing.Compression)
	require.Equal(t, properties["~delivery_mode"] == int64(1), outgoing.Transient)
	require.Equal(t, properties["unknown_to_celery"], outgoing.Properties["unknown_to_celery"])
	require.LessOrEqual(t, len(outgoing.Properties), 1)
}
