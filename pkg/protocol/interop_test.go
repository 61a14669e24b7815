//go:build interop

package protocol

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// These tests give what this package writes to Celery and kombu themselves, in
// the interpreter that LOVAGE_PYTHON names; see interop/protocol_roundtrip.py.

// question is one line for the script, answer one of its lines.
type question struct {
	Body            []byte `json:"body_b64,omitempty"`
	ContentType     string `json:"content_type,omitempty"`
	ContentEncoding string `json:"content_encoding,omitempty"`
	Compression     string `json:"compression,omitempty"`
	Envelope        string `json:"envelope,omitempty"`
	Meta            []byte `json:"meta_b64,omitempty"`
	Serializer      string `json:"serializer,omitempty"`
}

type answer map[string]any

// ask runs the script once for all questions.
func ask(t *testing.T, questions []question) []answer {
	t.Helper()
	python := os.Getenv("LOVAGE_PYTHON")
	require.NotEmpty(t, python, "LOVAGE_PYTHON must name a Python that has interop/requirements-new.txt")
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	for _, q := range questions {
		require.NoError(t, encoder.Encode(q))
	}
	script, err := filepath.Abs("../../interop/protocol_roundtrip.py")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	answers := make([]answer, 0, len(questions))
	for line := range strings.Lines(string(out)) {
		var a answer
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		require.NotContains(t, a, "error")
		answers = append(answers, a)
	}
	require.Len(t, answers, len(questions))
	return answers
}

// interopValues are what every serializer has a form for; typedValues only JSON
// and, but for the last four, YAML.
func interopValues() []any {
	return []any{
		nil, true, int64(1<<53 + 1), int64(math.MinInt64), new(big.Int).SetUint64(math.MaxUint64), 0.1, math.Copysign(0, -1), 1e16, 1e300, 5e-324,
		math.NaN(), math.Inf(1), math.Inf(-1), "", "it's", "é世界😀", "yes", "1:30", "0o7", "2020-01-02", "=", "<<", "~", "a\nb\x00\x7f\u0085\u2028\ufeff",
		strings.Repeat("long text ", 400), []byte("text"), []byte{0xFF, 0}, []any{}, []any{int64(1), []any{nil}}, map[string]any{},
		map[string]any{"yes": int64(1), "": nil, "=": "v", "<<": "m", strings.Repeat("k", 3000): []any{map[string]any{"a": 1.5}}},
	}
}

func typedValues() []any {
	return []any{
		time.Date(2020, 1, 2, 3, 4, 5, 678901000, time.UTC), time.Date(2020, 1, 2, 3, 4, 5, 0, time.FixedZone("", -(5*3600+30*60))),
		NaiveDateTime{time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}, Date{1, 1, 1}, new(big.Int).Lsh(big.NewInt(1), 200),
		TimeOfDay("03:04:05.678901"), Decimal("1.10"), uuid.MustParse("11111111-2222-4333-8444-555555555555"), "\xed\xa0\xbd",
	}
}

func TestInteropBodies(t *testing.T) {
	values := map[string][]any{
		"json":    append(interopValues(), typedValues()...),
		"yaml":    append(interopValues(), typedValues()[:5]...),
		"msgpack": interopValues(),
	}
	var questions []question
	var want []string
	for serializer, list := range values {
		for _, v := range append(list, list) {
			body, contentType, contentEncoding, err := Serialize(serializer, v)
			require.NoError(t, err)
			questions = append(questions, question{Body: body, ContentType: contentType, ContentEncoding: contentEncoding})
			want = append(want, fullRepr(v))
		}
	}
	for mime := range codecNames {
		for _, text := range []string{"a", strings.Repeat("[[2, 3], {}, {}]", 10_000)} {
			body, err := EncodeJSON(text)
			require.NoError(t, err)
			compressed, _, err := Compress(mime, body)
			require.NoError(t, err)
			questions = append(questions, question{Body: compressed, ContentType: ContentTypeJSON, ContentEncoding: "utf-8", Compression: mime})
			want = append(want, fullRepr(text))
		}
	}
	for i, a := range ask(t, questions) {
		require.Equal(t, want[i], a["value"], "%q", questions[i].Body)
	}
}

func interopMessage() *Message {
	index, ignore := 2, true
	return &Message{
		Task: "proj.add", ID: "11111111-2222-4333-8444-555555555555", Shadow: "shown", RootID: "root", ParentID: "parent", GroupID: "group",
		GroupIndex: &index, Retries: 2, ETA: time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 5*3600+30*60)),
		Expires: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC), TimeLimit: 10 * time.Second, SoftTimeLimit: 1500 * time.Millisecond,
		IgnoreResult: &ignore, StampedHeaders: []string{"tenant"}, Stamps: map[string]any{"tenant": "t1"},
		Args: []any{int64(1), "é", []byte{0xFF}}, Kwargs: map[string]any{"k": nil},
		Callbacks: []Signature{{Task: "proj.cb", Args: []any{int64(9)}, Options: map[string]any{"queue": "q"}}},
		Errbacks:  []Signature{{Task: "proj.err", Immutable: true}},
		Chain:     []Signature{{Task: "proj.last"}, {Task: "proj.next"}},
		Chord:     &Signature{Task: "proj.body", Args: []any{int64(1)}},
		ReplyTo:   "reply", Priority: 5, Queue: "q",
	}
}

func TestInteropMessages(t *testing.T) {
	m := interopMessage()
	options := []EncodeOptions{
		{}, {Serializer: "msgpack"}, {Serializer: "yaml"}, {Compression: "zlib"}, {Compression: "bzip2"}, {Compression: "xz"},
		{Compression: "brotli"}, {Compression: "zstd"}, {Serializer: "msgpack", Compression: "zstd"},
		{Protocol: Protocol1}, {Protocol: Protocol1, Serializer: "yaml", Compression: "zlib"},
	}
	questions := make([]question, 0, len(options))
	for _, o := range options {
		env, err := EncodeMessage(m, o)
		require.NoError(t, err)
		env.Properties.DeliveryTag = "tag"
		encoded, err := env.Encode()
		require.NoError(t, err)
		questions = append(questions, question{Envelope: string(encoded)})
	}
	for i, a := range ask(t, questions) {
		want := map[string]any{
			"id": m.ID, "task": "proj.add", "name": "shown", "eta": "2030-01-02T03:04:05.678901+05:30", "expires": "2031-01-02T03:04:05+00:00",
			"time_limits": "[10, 1.5]", "root_id": "root", "parent_id": "parent", "group": "group", "retries": 2.0, "stamps": `{"tenant": "t1"}`,
			"argsrepr": `(1, 'é', b'ff')`, "reply_to": "reply", "correlation_id": m.ID, "routing_key": "q",
			"args": fullRepr(m.Args), "kwargs": fullRepr(m.Kwargs), "chord": "proj.body",
			"embed": fullRepr(map[string]any{
				"callbacks": signatureValues(m.Callbacks), "errbacks": signatureValues(m.Errbacks), "chain": signatureValues(m.Chain), "chord": m.Chord.Value(),
			}),
		}
		if options[i].Protocol == Protocol1 {
			// What protocol 1 has no place for.
			for name, absent := range map[string]any{"stamps": "null", "argsrepr": nil} {
				want[name] = absent
			}
			next, _ := linkedChain(m.Chain)
			want["embed"] = fullRepr(map[string]any{
				"callbacks": signatureValues(append(m.Callbacks, next)), "errbacks": signatureValues(m.Errbacks), "chain": nil, "chord": m.Chord.Value(),
			})
		}
		require.Equal(t, want, map[string]any(a), "%+v", options[i])
	}
}

func TestInteropMetas(t *testing.T) {
	done := time.Date(2026, 11, 29, 15, 18, 39, 413877000, time.UTC)
	success := Meta{TaskID: "t", Status: StateSuccess, Result: []any{int64(1), "é"}, DateDone: done}
	failure := func(e Exception) Meta { return Meta{TaskID: "t", Status: StateFailure, Result: e, DateDone: done} }
	cases := []struct {
		meta Meta
		want string
	}{
		{success, fullRepr(success.Result)},
		{failure(Exception{"ValueError", "builtins", []any{"a", int64(1)}}), `{"args": ["a", 1], "module": "builtins", "name": "ValueError"}`},
		{failure(Exception{"NotRegistered", "celery.exceptions", []any{"no.such"}}), `{"args": ["no.such"], "module": "celery.exceptions", "name": "NotRegistered"}`},
		{failure(Exception{"GoError", "gotask", []any{"broken"}}), `{"args": ["broken"], "module": "celery.exceptions", "name": "GoError"}`},
		{Meta{TaskID: "t", Status: StateStarted, Result: map[string]any{"pid": 1}}, `{"pid": 1}`},
	}
	serializers := []string{"json", "msgpack", "yaml"}
	questions := make([]question, 0, len(cases)*len(serializers))
	for _, serializer := range serializers {
		for _, c := range cases {
			body, _, _, err := EncodeMeta(serializer, c.meta)
			require.NoError(t, err)
			questions = append(questions, question{Meta: body, Serializer: serializer})
		}
	}
	for i, a := range ask(t, questions) {
		c := cases[i%len(cases)]
		require.Equal(t, answer{"status": string(c.meta.Status), "task_id": "t", "result": c.want}, a)
	}
}
