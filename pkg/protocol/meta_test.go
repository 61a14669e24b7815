package protocol

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestMetaVectors decodes every meta that real workers stored and encodes it
// again: keys and values stay.
func TestMetaVectors(t *testing.T) {
	states := map[State]int{}
	for _, path := range vectorPaths(t, "res_*.json") {
		for _, stored := range list(t, readVector(t, path)["result_metas"]) {
			raw := text(t, mapping(t, stored)["value"])
			var m Meta
			var err error
			serializer := "json"
			if path == "vectors/res_msgpack.json" {
				serializer = "msgpack"
				v, decodeErr := decodeMsgpack(unescape(t, raw), DefaultLimits())
				require.NoError(t, decodeErr)
				raw = fullRepr(v)
				m, err = MetaOf(v)
			} else {
				m, err = DecodeMeta([]byte(raw))
			}
			require.NoError(t, err, path)
			states[m.Status]++
			checkMeta(t, m, raw, serializer)
		}
	}
	require.Len(t, states, 6, "%v", states)
}

// checkMeta encodes a meta and finds the document it came from.
func checkMeta(t *testing.T, m Meta, raw, serializer string) {
	t.Helper()
	want, err := DecodeJSON([]byte(raw), DefaultLimits())
	require.NoError(t, err)
	requireSame(t, want, m.Value())
	require.Equal(t, mapping(t, want)["task_id"], m.TaskID)

	body, contentType, contentEncoding, err := EncodeMeta(serializer, m)
	require.NoError(t, err)
	v, err := Deserialize(body, contentType, contentEncoding, acceptAll(t), DefaultLimits())
	require.NoError(t, err)
	requireSame(t, want, v)

	if m.Status == StateFailure || m.Status == StateRevoked {
		require.IsType(t, Exception{}, m.Result)
	}
	require.Equal(t, m.Status.Ready(), !m.DateDone.IsZero())
}

// unescape undoes the \x.. of a vector that holds bytes as text.
func unescape(t *testing.T, escaped string) []byte {
	t.Helper()
	return regexp.MustCompile(`\\x[0-9a-f]{2}`).ReplaceAllFunc([]byte(escaped), func(match []byte) []byte {
		n, err := strconv.ParseUint(string(match[2:]), 16, 8)
		require.NoError(t, err)
		return []byte{byte(n)}
	})
}

func TestMetaFields(t *testing.T) {
	m := Meta{
		TaskID: "t1", Status: StateSuccess, Result: 3, GroupID: "g", ParentID: "p",
		DateDone: time.Date(2026, 11, 29, 15, 18, 39, 413877000, time.FixedZone("", 9*3600)),
		Extra:    map[string]any{"name": "proj.add", "status": "never"},
	}
	want := `{"children": [], "date_done": "2026-11-29T15:18:39.413877+09:00", "group_id": "g", "name": "proj.add", ` +
		`"parent_id": "p", "result": 3, "status": "SUCCESS", "task_id": "t1", "traceback": null}`
	require.Equal(t, want, fullRepr(m.Value()))

	started := Meta{TaskID: "t1", Status: StateStarted, Result: map[string]any{"pid": 1}}
	require.Nil(t, started.Value()["date_done"])
	require.NotContains(t, started.Value(), "group_id")
}

// TestMetaException stores arguments that the serializer has no form for as
// their repr; each serializer has its own.
func TestMetaException(t *testing.T) {
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	m := Meta{TaskID: "t", Status: StateFailure, Result: &Exception{
		Type: "AppError.Inner", Module: "proj", Args: []any{"text", id, func() {}, 5},
	}}
	for serializer, want := range map[string]string{
		"json":    `["text", {"__type__": "uuid", "__value__": {"hex": "11111111222243338444555555555555"}}, "<func()>", 5]`,
		"msgpack": `["text", "UUID('11111111-2222-4333-8444-555555555555')", "<func()>", 5]`,
		"yaml":    `["text", "UUID('11111111-2222-4333-8444-555555555555')", "<func()>", 5]`,
	} {
		body, contentType, contentEncoding, err := EncodeMeta(serializer, m)
		require.NoError(t, err)
		v, err := Deserialize(body, contentType, contentEncoding, acceptAll(t), DefaultLimits())
		require.NoError(t, err)
		result := mapping(t, mapping(t, v)["result"])
		require.Equal(t, want, fullRepr(result["exc_message"]), serializer)
		require.Equal(t, "AppError.Inner", result["exc_type"])
		require.Equal(t, "proj", result["exc_module"])
	}
	require.Equal(t, []any{"text", id, "<func()>", 5}, Exception{Args: []any{"text", id, func() {}, 5}}.Value()["exc_message"])
	require.Nil(t, Meta{Result: (*Exception)(nil)}.Value()["result"])

	_, _, _, err := EncodeMeta("json", Meta{Result: func() {}})
	var encodeError *EncodeError
	require.ErrorAs(t, err, &encodeError)
}

func TestDecodeException(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Exception
		ok   bool
	}{
		{`{"exc_type": "ValueError", "exc_message": ["a", 1], "exc_module": "builtins"}`, Exception{"ValueError", "builtins", []any{"a", int64(1)}}, true},
		{`{"exc_type": "E", "exc_message": "text"}`, Exception{"E", "", []any{"text"}}, true},
		{`{"exc_type": "E", "exc_module": null}`, Exception{"E", "", nil}, true},
		{`{"exc_message": []}`, Exception{}, false},
		{`"ValueError"`, Exception{}, false},
		{`null`, Exception{}, false},
	} {
		v, err := DecodeJSON([]byte(c.in), DefaultLimits())
		require.NoError(t, err)
		e, ok := DecodeException(v)
		require.Equal(t, c.ok, ok, c.in)
		require.Equal(t, c.want, e, c.in)
	}
}

func TestDecodeMetaErrors(t *testing.T) {
	for _, in := range []string{`[]`, `{`, `{}`, `{"status": null}`, `{"status": 1}`, `{"status": "SUCCESS", "date_done": "x"}`, `{"status": "SUCCESS", "children": {}}`} {
		_, err := DecodeMeta([]byte(in))
		var decodeError *DecodeError
		require.ErrorAs(t, err, &decodeError, in)
	}
	m, err := DecodeMeta([]byte(`{"status": "RETRY", "result": null}`))
	require.NoError(t, err)
	require.Equal(t, Meta{Status: StateRetry}, m)
}
