package protocol

import (
	"os"
	"testing"

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
