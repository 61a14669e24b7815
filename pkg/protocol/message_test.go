package protocol

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// decodeBody decodes a message with these headers and this JSON body.
func decodeBody(headers map[string]any, body string) (*Message, error) {
	env := &Envelope{Body: []byte(body), ContentType: ContentTypeJSON, ContentEncoding: "utf-8", Headers: headers}
	return DecodeMessage(env, DecodeOptions{Limits: DefaultLimits()})
}

// withHeader are the headers of a valid message and one more.
func withHeader(name string, value any) map[string]any {
	return map[string]any{"task": "proj.add", "id": "i", name: value}
}

func TestHeaderForms(t *testing.T) {
	one, no := 1, false
	for name, c := range map[string]struct {
		value any
		field func(*Message) any
		want  any
	}{
		"retries":               {int64(2), func(m *Message) any { return m.Retries }, 2},
		"retries null":          {nil, func(m *Message) any { return m.Retries }, 0},
		"retries float":         {2.0, func(m *Message) any { return m.Retries }, 2},
		"group_index":           {int64(1), func(m *Message) any { return m.GroupIndex }, &one},
		"ignore_result":         {false, func(m *Message) any { return m.IgnoreResult }, &no},
		"ignore_result int":     {int64(0), func(m *Message) any { return m.IgnoreResult }, &no},
		"ignore_result null":    {nil, func(m *Message) any { return m.IgnoreResult }, (*bool)(nil)},
		"replaced_task_nesting": {int64(1), func(m *Message) any { return m.ReplacedTaskNesting }, 1},
		"timelimit":             {[]any{int64(10), 0.5}, func(m *Message) any { return []any{m.TimeLimit, m.SoftTimeLimit} }, []any{10 * time.Second, 500 * time.Millisecond}},
		"timelimit empty":       {[]any{}, func(m *Message) any { return m.TimeLimit }, time.Duration(0)},
		"timelimit huge":        {[]any{1e300, nil}, func(m *Message) any { return m.TimeLimit }, time.Duration(math.MaxInt64)},
		"stamped_headers":       {[]any{"a"}, func(m *Message) any { return m.StampedHeaders }, []string{"a"}},
		"eta typed":             {time.Unix(5, 0).UTC(), func(m *Message) any { return m.ETA }, time.Unix(5, 0).UTC()},
		"eta naive":             {NaiveDateTime{time.Unix(5, 0).UTC()}, func(m *Message) any { return m.ETA }, time.Unix(5, 0).UTC()},
		"expires in year one":   {"0001-01-01T00:00:00", func(m *Message) any { return m.Expires.IsZero() }, false},
		"redelivered":           {true, func(m *Message) any { return m.Redelivered }, true},
		"meth":                  {"x", func(m *Message) any { return m.CustomHeaders }, map[string]any{"meth": "x"}},
		"lang":                  {"py", func(m *Message) any { return m.CustomHeaders }, map[string]any(nil)},
		"compression":           {"", func(m *Message) any { return m.Compression }, ""},
		"compression null":      {nil, func(m *Message) any { return m.Compression }, ""},
	} {
		header, _, _ := strings.Cut(name, " ")
		m, err := decodeBody(withHeader(header, c.value), `[[], {}, null]`)
		require.NoError(t, err, name)
		require.Equal(t, c.want, c.field(m), name)
	}
}

func TestInvalidHeaders(t *testing.T) {
	for name, value := range map[string]any{
		"task": int64(5), "task null": nil, "task empty": "", "id": int64(5), "id null": nil, "id empty": "",
		"root_id": int64(5), "parent_id": []any{}, "group": true, "group_index": "1", "group_index float": 1.5,
		"retries": "x", "retries negative": int64(-1), "retries bool": true, "retries huge": 1e300, "eta": "", "eta number": 1.5, "eta date": Date{2020, 1, 1}, "eta list": []any{},
		"expires": "", "expires bool": true, "timelimit": []any{nil}, "timelimit three": []any{nil, nil, nil}, "timelimit text": "10", "timelimit items": []any{"1", nil},
		"timelimit negative": []any{int64(-1), nil}, "timelimit nan": []any{math.NaN(), nil}, "timelimit soft": []any{nil, "x"},
		"ignore_result": "yes", "replaced_task_nesting": "x", "stamped_headers": "x", "stamped_headers items": []any{int64(1)}, "stamps": []any{},
		"shadow": int64(1), "argsrepr": int64(1), "kwargsrepr": []any{}, "origin": true,
	} {
		header, _, _ := strings.Cut(name, " ")
		_, err := decodeBody(withHeader(header, value), `[[], {}, {}]`)
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid, name)
		require.NotEmpty(t, invalid.Reason)
		if header != "task" && header != "id" {
			require.Equal(t, "proj.add", invalid.Task)
			require.Equal(t, "i", invalid.ID)
		}
	}
	_, err := decodeBody(withHeader("compression", int64(5)), "x")
	var decodeError *DecodeError
	require.ErrorAs(t, err, &decodeError)
}

func TestInvalidBodies(t *testing.T) {
	for _, body := range []string{
		"", "null", "5", "1.5", "true", `"text"`, `"args"`, `["args", {}, {}]`, "[]", "[[], {}]", "[[], {}, {}, {}]", `{"a": 1, "b": 2, "c": 3}`,
		"[[], null, {}]", "[[], [], {}]", `[[], "", {}]`, "[[], {}, []]", `[[], {}, "x"]`, "[[], {}, 0]",
		`[[], {}, {"callbacks": "x"}]`, `[[], {}, {"callbacks": [1]}]`, `[[], {}, {"errbacks": [{}]}]`, `[[], {}, {"chain": [{"task": 5}]}]`,
		`[[], {}, {"chord": []}]`, `[[], {}, {"chord": {"task": "t", "args": {}}}]`, `[[], {}, {"chord": {"task": "t", "kwargs": []}}]`,
		`[[], {}, {"chord": {"task": "t", "options": 5}}]`, `[[], {}, {"chord": {"task": "t", "immutable": "x"}}]`, `[[], {}, {"chord": {"task": "t", "chord_size": "x"}}]`,
		`{"args": [], "kwargs": []}`, `{"args": [], "kwargs": null}`, `{"args": [], "callbacks": 5}`, `{"args": [], "eta": 5}`,
	} {
		m, err := decodeBody(map[string]any{"task": "proj.add", "id": "i"}, body)
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid, body)
		require.Nil(t, m)
	}
	for _, body := range []string{"[]", `{"id": "i"}`, "5", "null", `"task"`, ""} {
		_, err := decodeBody(nil, body)
		require.ErrorIs(t, err, ErrUnknownMessage, body)
	}
	for _, body := range []string{`{"task": null, "id": "i"}`, `{"task": 5, "id": "i"}`, `{"task": "t"}`, `{"task": "t", "id": 5}`, `{"task": "t", "id": "i", "eta": ""}`} {
		_, err := decodeBody(nil, body)
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid, body)
	}
}

// TestProtocol1Forms covers Celery's two ways of reading a body that is a map.
func TestProtocol1Forms(t *testing.T) {
	m, err := decodeBody(map[string]any{"id": "header", "x": int64(1)}, `{"task": "t", "id": "body", "args": null, "taskset": "g", "group_index": 3, "root_id": "r", "timelimit": [1, null]}`)
	require.NoError(t, err)
	index := 3
	require.Equal(t, &Message{
		Protocol: Protocol1, Task: "t", ID: "header", GroupID: "g", GroupIndex: &index, RootID: "r", TimeLimit: time.Second,
		CustomHeaders: map[string]any{"x": int64(1)}, Kwargs: map[string]any{}, ContentType: ContentTypeJSON, ContentEncoding: "utf-8",
	}, m)

	// Without args the headers are only custom headers.
	m, err = decodeBody(map[string]any{"id": "header", "x": int64(1)}, `{"task": "t", "id": "body", "group": "g", "taskset": "other", "kwargs": {"a": 1}}`)
	require.NoError(t, err)
	require.Equal(t, &Message{
		Protocol: Protocol1, Task: "t", ID: "body", GroupID: "g", ArgsRepr: "()", KwargsRepr: "{'a': 1}",
		CustomHeaders: map[string]any{"x": int64(1)}, Args: []any{}, Kwargs: map[string]any{"a": int64(1)}, ContentType: ContentTypeJSON, ContentEncoding: "utf-8",
	}, m)
}

func TestKnown(t *testing.T) {
	known := func(task string) bool { return task == "known" }
	env := &Envelope{
		Body: []byte("not json"), ContentType: "application/x-nope",
		Headers:    map[string]any{"task": "no.such", "id": "i", "root_id": "r", "parent_id": "p", "group": "g"},
		Properties: Properties{ReplyTo: "reply", CorrelationID: "c"},
	}
	_, err := DecodeMessage(env, DecodeOptions{Limits: DefaultLimits(), Known: known})
	var unknown *UnknownTaskError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, UnknownTaskError{Task: "no.such", ID: "i", RootID: "r", ParentID: "p", GroupID: "g", ReplyTo: "reply", CorrelationID: "c"}, *unknown)
	require.EqualError(t, err, `protocol: received unregistered task of type "no.such" (id i)`)

	env.Headers["task"] = "known"
	_, err = DecodeMessage(env, DecodeOptions{Limits: DefaultLimits(), Known: known})
	var disallowed *ContentDisallowedError
	require.ErrorAs(t, err, &disallowed)

	// For a message without a task in its headers Celery can't tell this from
	// a body that does not decode.
	delete(env.Headers, "task")
	_, err = DecodeMessage(env, DecodeOptions{Limits: DefaultLimits(), Known: known})
	var decodeError *DecodeError
	require.ErrorAs(t, err, &decodeError)
}

func TestPositional(t *testing.T) {
	for _, c := range []struct{ args, want any }{
		{[]any{int64(1)}, []any{int64(1)}},
		{map[string]any{"b": 1, "a": 2}, []any{"a", "b"}},
		{"aé\xed\xa0\xbd", []any{"a", "é", "\xed\xa0\xbd"}},
		{[]byte{1, 255}, []any{int64(1), int64(255)}},
		{"", []any{}},
	} {
		got, err := (&Message{Args: c.args}).Positional()
		require.NoError(t, err)
		require.Equal(t, c.want, any(got))
	}
	for name, args := range map[string]any{
		"NoneType": nil, "int": int64(5), "float": 1.5, "bool": true, "datetime.datetime": NaiveDateTime{}, "datetime.date": Date{},
		"datetime.time": TimeOfDay(""), "decimal.Decimal": Decimal("1"), "UUID": uuid.UUID{},
	} {
		_, err := (&Message{Task: "proj.add", Args: args}).Positional()
		var typeError *TypeError
		require.ErrorAs(t, err, &typeError)
		require.EqualError(t, err, "proj.add() argument after * must be an iterable, not "+name)
	}
}

func TestEncodeMessage(t *testing.T) {
	index, ignore, size := 2, true, 3
	m := &Message{
		Task: "proj.add", ID: "i", Shadow: "s", GroupID: "g", GroupIndex: &index, ParentID: "p", Retries: 1,
		ETA: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), TimeLimit: 1500 * time.Millisecond, IgnoreResult: &ignore,
		StampedHeaders: []string{"tenant"}, Stamps: map[string]any{"tenant": "t1"}, Origin: "me",
		CustomHeaders: map[string]any{"x": []string{"y"}, "task": "never"}, Args: []any{1, "two"}, Kwargs: map[string]any{"k": time.Second},
		Callbacks: []Signature{{Task: "cb"}}, Chord: &Signature{Task: "body", ChordSize: &size}, ReplyTo: "r", Priority: 3, Queue: "q",
	}
	env, err := EncodeMessage(m, EncodeOptions{Compression: "zlib"})
	require.NoError(t, err)
	require.Equal(t, Properties{
		CorrelationID: "i", ReplyTo: "r", DeliveryMode: 2, Priority: 3, BodyEncoding: "base64", DeliveryInfo: DeliveryInfo{RoutingKey: "q"},
	}, env.Properties)
	requireText(t, `{"argsrepr": "(1, 'two')", "compression": "application/x-gzip", "eta": "2030-01-01T00:00:00+00:00", "expires": null, `+
		`"group": "g", "group_index": 2, "id": "i", "ignore_result": true, "kwargsrepr": "{'k': 1.0}", "lang": "py", "origin": "me", "parent_id": "p", `+
		`"replaced_task_nesting": 0, "retries": 1, "root_id": "i", "shadow": "s", "stamped_headers": ["tenant"], "stamps": {"tenant": "t1"}, `+
		`"task": "proj.add", "timelimit": [1.5, null], "x": ["y"]}`, fullRepr(env.Headers))
	body, err := Decompress("zlib", env.Body, 1000)
	require.NoError(t, err)
	require.Equal(t, `[[1, "two"], {"k": 1.0}, {"callbacks": [{"args": [], "immutable": false, "kwargs": {}, "options": {}, "subtask_type": null, "task": "cb"}], `+
		`"chain": null, "chord": {"args": [], "chord_size": 3, "immutable": false, "kwargs": {}, "options": {}, "subtask_type": null, "task": "body"}, "errbacks": null}]`, string(body))
}

// TestEncodeKeeps keeps how a message was serialized, unless told otherwise.
func TestEncodeKeeps(t *testing.T) {
	m := &Message{Task: "t", ID: "i", Args: map[string]any{"a": 1}, ContentType: ContentTypeMsgpack, Compression: "application/zstd"}
	env, err := EncodeMessage(m, EncodeOptions{})
	require.NoError(t, err)
	require.Equal(t, ContentTypeMsgpack, env.ContentType)
	require.Equal(t, "binary", env.ContentEncoding)
	require.Equal(t, "application/zstd", env.Headers["compression"])
	require.Equal(t, "{'a': 1}", env.Headers["argsrepr"])

	env, err = EncodeMessage(m, EncodeOptions{Serializer: "json", Compression: "bzip2", Protocol: Protocol1})
	require.NoError(t, err)
	require.Equal(t, "json", serializerName(env.ContentType))
	require.Equal(t, map[string]any{"compression": "application/x-bz2"}, env.Headers)
}

func TestEncodeMessageErrors(t *testing.T) {
	for name, c := range map[string]struct {
		m Message
		o EncodeOptions
	}{
		"argument":    {Message{Args: []any{func() {}}}, EncodeOptions{}},
		"serializer":  {Message{}, EncodeOptions{Serializer: "pickle"}},
		"name":        {Message{}, EncodeOptions{Serializer: "nope"}},
		"compression": {Message{}, EncodeOptions{Compression: "nope"}},
		"eta":         {Message{ETA: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, EncodeOptions{}},
		"expires":     {Message{Expires: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, EncodeOptions{}},
	} {
		env, err := EncodeMessage(&c.m, c.o)
		var encodeError *EncodeError
		require.ErrorAs(t, err, &encodeError, name)
		require.Nil(t, env)
	}
}

// TestEncodeChain1 nests a chain in the links of protocol 1 as Celery does.
func TestEncodeChain1(t *testing.T) {
	m := &Message{Task: "a", ID: "i", Callbacks: []Signature{{Task: "cb"}}, Chain: []Signature{
		{Task: "d"}, {Task: "c", Options: map[string]any{"link": Signature{Task: "x"}.Value(), "queue": "q"}}, {Task: "b"},
	}}
	env, err := EncodeMessage(m, EncodeOptions{Protocol: Protocol1})
	require.NoError(t, err)
	again, err := DecodeMessage(env, DecodeOptions{Limits: DefaultLimits()})
	require.NoError(t, err)
	require.Len(t, again.Callbacks, 2)
	require.Equal(t, "cb", again.Callbacks[0].Task)
	b := again.Callbacks[1]
	require.Equal(t, "b", b.Task)
	c := mapping(t, list(t, b.Options["link"])[0])
	require.Equal(t, "c", c["task"])
	require.Equal(t, "q", mapping(t, c["options"])["queue"])
	links := list(t, mapping(t, c["options"])["link"])
	require.Equal(t, "x", mapping(t, links[0])["task"])
	require.Equal(t, "d", mapping(t, links[1])["task"])
	// What was given is as it was.
	require.Nil(t, m.Chain[2].Options)
	require.Len(t, m.Callbacks, 1)
}

func TestSignature(t *testing.T) {
	size := 4
	for _, s := range []Signature{
		{Task: "t", Args: []any{int64(1)}, Kwargs: map[string]any{"a": nil}, Options: map[string]any{"queue": "q"}, SubtaskType: "chord", Immutable: true, ChordSize: &size},
		{Task: "t", Args: []any{}, Kwargs: map[string]any{}, Options: map[string]any{}},
	} {
		got, err := DecodeSignature(s.Value())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, in := range []string{`null`, `[]`, `{}`, `{"task": ""}`, `{"task": "t", "subtask_type": 5}`} {
		_, err := DecodeSignature(mustDecode(t, in))
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid, in)
	}
}
