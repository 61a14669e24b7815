package protocol

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkMessage takes a message off the wire and puts it back, as a retry
// does.
func BenchmarkMessage(b *testing.B) {
	messages := list(b, readVector(b, "vectors/msg_simple.json")["messages"])
	raw := []byte(text(b, mapping(b, messages[0])["redis_value"]))
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		env, err := DecodeEnvelope(raw, DefaultLimits())
		require.NoError(b, err)
		m, err := DecodeMessage(env, DecodeOptions{Limits: DefaultLimits()})
		require.NoError(b, err)
		env, err = EncodeMessage(m, EncodeOptions{})
		require.NoError(b, err)
		env.Properties.DeliveryTag = "tag"
		_, err = env.Encode()
		require.NoError(b, err)
	}
}

// BenchmarkDecodeJSON reads a large document.
func BenchmarkDecodeJSON(b *testing.B) {
	data, err := os.ReadFile("testdata/vectors/behaviour_poison.json")
	require.NoError(b, err)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		_, err := DecodeJSON(data, DefaultLimits())
		require.NoError(b, err)
	}
}

// benchMessage is what a producer sends for a call with a few arguments.
func benchMessage() *Message {
	return &Message{
		ID: "5c5b8d2e-7a0e-4a6f-9a53-5b9b7a1f0c11", Task: "shop.process_order", Queue: "celery",
		Args: []any{"A1", int64(3)}, Kwargs: map[string]any{"note": "näh", "tags": []any{"a", "b"}, "price": 2.5},
		Origin: "gen1@host",
	}
}

// BenchmarkDecode takes a message off the wire, the envelope and what is in it.
func BenchmarkDecode(b *testing.B) {
	for _, form := range []struct {
		name       string
		protocol   int
		serializer string
	}{
		{"protocol2/json", Protocol2, "json"},
		{"protocol2/yaml", Protocol2, "yaml"},
		{"protocol2/msgpack", Protocol2, "msgpack"},
		{"protocol1/json", Protocol1, "json"},
	} {
		b.Run(form.name, func(b *testing.B) {
			env, err := EncodeMessage(benchMessage(), EncodeOptions{Protocol: form.protocol, Serializer: form.serializer})
			require.NoError(b, err)
			raw, _, err := env.Wire("tag")
			require.NoError(b, err)
			accept, err := NewAccept([]string{form.serializer})
			require.NoError(b, err)
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				_, _, err := DecodeTask(raw, DecodeOptions{Accept: accept, Limits: DefaultLimits()})
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkDecodeEnvelope reads envelopes with small and large bodies.
func BenchmarkDecodeEnvelope(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 100 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			message := benchMessage()
			message.Args = []any{strings.Repeat("x", size)}
			env, err := EncodeMessage(message, EncodeOptions{})
			require.NoError(b, err)
			raw, _, err := env.Wire("tag")
			require.NoError(b, err)
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				_, err := DecodeEnvelope(raw, DefaultLimits())
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkMeta is the record of a result, written and read.
func BenchmarkMeta(b *testing.B) {
	meta := Meta{
		TaskID: "5c5b8d2e-7a0e-4a6f-9a53-5b9b7a1f0c11", Status: StateSuccess, Result: map[string]any{"total": 2.5},
		DateDone: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Extra: map[string]any{"group_id": nil},
	}
	body, _, _, err := EncodeMeta("json", meta)
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _, err := EncodeMeta("json", meta)
			require.NoError(b, err)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := DecodeMeta(body)
			require.NoError(b, err)
		}
	})
}
