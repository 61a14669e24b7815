package protocol

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fuzzLimits are small, so that a bomb shows as time or memory at once.
func fuzzLimits() Limits { return Limits{Envelope: 1 << 16, Body: 1 << 16, Depth: 50, Items: 10_000} }

// addSeeds adds every tenth of Python's cases, and some of the most awkward.
func addSeeds(f *testing.F, file string) {
	f.Helper()
	for i, c := range pythonCases(f, file) {
		if data := unbase64(f, c.Data); i%10 == 0 && len(data) < 200 {
			f.Add(data)
		}
	}
}

// checkStable encodes what was decoded and finds the same value in it.
func checkStable(t *testing.T, serializer string, v any) {
	t.Helper()
	limits := fuzzLimits()
	limits.Body *= 8
	body, contentType, contentEncoding, err := Serialize(serializer, v)
	require.NoError(t, err)
	again, err := Deserialize(body, contentType, contentEncoding, acceptAll(t), limits)
	require.NoError(t, err)
	requireSame(t, v, again)
}

func FuzzJSON(f *testing.F) {
	addSeeds(f, "json.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeJSON(data, fuzzLimits())
		if err != nil {
			var decodeError *DecodeError
			require.ErrorAs(t, err, &decodeError)
			return
		}
		// A map inside {"__type__", "__value__"} may turn into a typed value only
		// once, so compare the second document with the third.
		first, err := EncodeJSON(v)
		require.NoError(t, err)
		again, err := DecodeJSON(first, Limits{Depth: 60, Items: 100_000})
		require.NoError(t, err)
		require.Equal(t, string(first), fullRepr(again))
		_ = Repr(v, 100)
	})
}

func FuzzMsgpack(f *testing.F) {
	addSeeds(f, "msgpack.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := decodeMsgpack(data, fuzzLimits()); err == nil {
			checkStable(t, "msgpack", v)
		}
	})
}

func FuzzYAML(f *testing.F) {
	addSeeds(f, "yaml.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := decodeYAML(data, fuzzLimits()); err == nil {
			_, err := encodeYAML(v)
			require.NoError(t, err)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(sampleEnvelope))
	f.Add([]byte(`{"body": "[1]", "properties": {"body_encoding": null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := DecodeEnvelope(data, fuzzLimits())
		if err != nil {
			var envelope *EnvelopeError
			require.ErrorAs(t, err, &envelope)
			return
		}
		e.Properties.DeliveryTag, e.Properties.BodyEncoding = "tag", "base64"
		encoded, err := e.Encode()
		require.NoError(t, err)
		again, err := DecodeEnvelope(encoded, Limits{Envelope: 1 << 20, Depth: 60, Items: 100_000})
		require.NoError(t, err)
		require.Equal(t, base64.StdEncoding.EncodeToString(e.Body), base64.StdEncoding.EncodeToString(again.Body))
		require.Equal(t, fullRepr(e.headers()), fullRepr(again.headers()))
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"task": "t", "id": "i"}`), []byte(`[[1], {"a": 1}, {"chain": [{"task": "x"}]}]`), byte(0))
	f.Add([]byte(`{}`), []byte(`{"task": "t", "id": "i", "args": [1], "kwargs": {}, "eta": "2020-01-02T03:04:05"}`), byte(0))
	f.Add([]byte(`{"task": "t", "id": "i", "timelimit": [1, 2.5], "stamps": {"a": 1}}`), []byte("\x93\x90\x80\xc0"), byte(1))
	f.Add([]byte(`{"task": "t", "id": "i", "retries": 3}`), []byte("- []\n- {}\n- ~\n"), byte(2))
	contentTypes := []string{ContentTypeJSON, ContentTypeMsgpack, ContentTypeYAML, "application/data", ContentTypePickle}
	f.Fuzz(func(t *testing.T, headers, body []byte, kind byte) {
		h, err := DecodeJSON(headers, fuzzLimits())
		fields, ok := h.(map[string]any)
		if err != nil || !ok {
			return
		}
		env := &Envelope{Body: body, Headers: fields, ContentType: contentTypes[int(kind)%len(contentTypes)]}
		m, err := DecodeMessage(env, DecodeOptions{Accept: acceptAll(t), Limits: fuzzLimits()})
		if err != nil {
			require.NotEmpty(t, errorClass(t, err))
			return
		}
		_, _ = m.Positional()
		encoded, err := EncodeMessage(m, EncodeOptions{Serializer: "json"})
		if err != nil {
			return
		}
		limits := fuzzLimits()
		limits.Body, limits.Depth = limits.Body*8, limits.Depth+10
		again, err := DecodeMessage(encoded, DecodeOptions{Limits: limits})
		require.NoError(t, err)
		require.Equal(t, fullRepr(m.Kwargs), fullRepr(again.Kwargs))
		require.Equal(t, m.ID, again.ID)
		require.True(t, m.ETA.Truncate(time.Microsecond).Equal(again.ETA), "%s %s", m.ETA, again.ETA)
	})
}

func FuzzParseTime(f *testing.F) {
	for i, c := range pythonCases(f, "times.json") {
		if i%10 == 0 {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, in string) {
		at, err := ParseTime(in)
		if err != nil {
			return
		}
		again, err := ParseTime(FormatTime(at))
		require.NoError(t, err, "%q", in)
		require.True(t, at.Equal(again) || at.Year() == 1, "%q: %s, then %s", in, at, again)
	})
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(`{"task": "t", "args": [1], "kwargs": {}, "options": {}, "subtask_type": null, "immutable": false}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeJSON(data, fuzzLimits())
		if err != nil {
			return
		}
		s, err := DecodeSignature(v)
		if err != nil {
			return
		}
		again, err := DecodeSignature(s.Value())
		require.NoError(t, err)
		requireSame(t, s.Value(), again.Value())
	})
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"status": "SUCCESS", "result": 3, "traceback": null, "children": [], "date_done": "2026-11-29T15:18:39.413877+00:00", "task_id": "t"}`))
	f.Add([]byte(`{"status": "FAILURE", "result": {"exc_type": "E", "exc_message": "x", "exc_module": null}, "name": "n"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMeta(data)
		if err != nil {
			var decodeError *DecodeError
			require.ErrorAs(t, err, &decodeError)
			return
		}
		_, _, _, err = EncodeMeta("json", m)
		require.NoError(t, err)
	})
}

func fuzzDecompress(f *testing.F, mime string) {
	f.Helper()
	for _, c := range pythonCases(f, "compression.json") {
		if data := unbase64(f, c.Data); c.Mime == mime && len(data) < 500 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		out, err := Decompress(mime, data, limit)
		if err != nil {
			var decodeError *DecodeError
			require.ErrorAs(t, err, &decodeError)
			return
		}
		require.LessOrEqual(t, len(out), limit)
	})
}

func FuzzDecompressZlib(f *testing.F)   { fuzzDecompress(f, "application/x-gzip") }
func FuzzDecompressBzip2(f *testing.F)  { fuzzDecompress(f, "application/x-bz2") }
func FuzzDecompressXZ(f *testing.F)     { fuzzDecompress(f, "application/x-lzma") }
func FuzzDecompressBrotli(f *testing.F) { fuzzDecompress(f, "application/x-brotli") }
func FuzzDecompressZstd(f *testing.F)   { fuzzDecompress(f, "application/zstd") }
