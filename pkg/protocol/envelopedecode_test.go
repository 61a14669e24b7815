package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnvelopesOfTheUsualForm: what kombu and Celery write is read the short way, and
// what is not is left to the long one.
func TestEnvelopesOfTheUsualForm(t *testing.T) {
	t.Parallel()
	for in, usual := range map[string]bool{
		sampleEnvelope:       true,
		`{"properties": {}}`: true,
		`{"properties": {"x": 1, "priority": null, "reply_to": null}, "headers": null, "y": [1], "content-type": null}`:                      true,
		`{"properties": {"priority": 1, "priority": 2.0}, "properties": {"priority": 3}}`:                                                    true,
		`{"properties": {"delivery_info": {"exchange": 1, "routing_key": "a", "redelivered": true, "z": 1}}}`:                                true,
		`{"properties": {}, "body": "x", "headers": {"id": {"__type__": "uuid", "__value__": {"hex": "00000000000000000000000000000000"}}}}`: true,

		`{}`:                                   false,
		`[]`:                                   false,
		`{"properties": {}} x`:                 false,
		`{"properties": []}`:                   false,
		`{"properties": {"priority": "high"}}`: false,
		`{"properties": {"reply_to": 5}}`:      false,
		`{"properties": {"delivery_info": null}}`:                 false,
		`{"properties": {}, "headers": []}`:                       false,
		`{"properties": {}, "body": 5}`:                           false,
		`{"properties": {}, "content-type": 5}`:                   false,
		`{"properties": {"__type__": "bytes", "__value__": "x"}}`: false,
		`{"properties": {"body_encoding": "rot13"}, "body": "x"}`: false,
	} {
		_, ok := readEnvelope([]byte(in), DefaultLimits())
		require.Equal(t, usual, ok, in)
		sameBothWays(t, []byte(in), DefaultLimits())
	}
}

func FuzzEnvelopeWays(f *testing.F) {
	f.Add([]byte(sampleEnvelope))
	f.Add([]byte(`{"properties": {"delivery_info": {"exchange": 1, "exchange": "e"}, "x": NaN}, "body": "eA==", "headers": {"a": {"b": [1]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) { sameBothWays(t, data, fuzzLimits()) })
}

// sameBothWays: what is read the short way is what the long way makes of it.
func sameBothWays(t *testing.T, data []byte, limits Limits) {
	t.Helper()
	got, ok := readEnvelope(data, limits)
	if !ok {
		return
	}
	want, err := decodeAnyEnvelope(data, limits)
	require.NoError(t, err)
	// A NaN is not equal to itself, but looks like it.
	require.Equal(t, fullRepr(want.Headers), fullRepr(got.Headers))
	require.Equal(t, fullRepr(want.Properties.Extra), fullRepr(got.Properties.Extra))
	require.Equal(t, want.Properties.Extra == nil, got.Properties.Extra == nil)
	for _, e := range []*Envelope{want, got} {
		e.Headers, e.Properties.Extra = nil, nil
	}
	require.Equal(t, want, got)
}
