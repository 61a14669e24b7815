package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sampleEnvelope = `{"body": "W1syLCAzXSwge30sIG51bGxd", "content-encoding": "utf-8", "content-type": "application/json",
 "headers": {"task": "proj.add", "id": "i", "when": {"__type__": "date", "__value__": "2020-01-02"}},
 "properties": {"correlation_id": "i", "reply_to": null, "delivery_mode": 2, "expiration": "600000", "priority": 9,
 "delivery_info": {"exchange": "x", "routing_key": "q", "redelivered": true}, "body_encoding": "base64", "delivery_tag": "tag",
 "origin": "gen1@host", "custom": [1, null], "timestamp": 1.5}}`

func TestEnvelope(t *testing.T) {
	e := decodeEnvelope(t, sampleEnvelope)
	require.Equal(t, &Envelope{
		Body: []byte("[[2, 3], {}, null]"), ContentType: "application/json", ContentEncoding: "utf-8",
		Headers: map[string]any{"task": "proj.add", "id": "i", "when": Date{2020, 1, 2}},
		Properties: Properties{
			CorrelationID: "i", DeliveryMode: 2, Expiration: "600000", Priority: 9, BodyEncoding: "base64", DeliveryTag: "tag",
			DeliveryInfo: DeliveryInfo{Exchange: "x", RoutingKey: "q", Redelivered: true},
			Extra:        map[string]any{"origin": "gen1@host", "custom": []any{int64(1), nil}, "timestamp": 1.5},
		},
	}, e)
	encoded, err := e.Encode()
	require.NoError(t, err)
	require.Equal(t, e, decodeEnvelope(t, string(encoded)))

	headers, err := e.HeadersJSON()
	require.NoError(t, err)
	requireText(t, `{"id": "i", "task": "proj.add", "when": {"__type__": "date", "__value__": "2020-01-02"}}`, string(headers))
}

func TestEnvelopeForms(t *testing.T) {
	for name, c := range map[string]struct{ in, body string }{
		"no body":      {`{"properties": {}}`, ""},
		"null body":    {`{"body": null, "headers": null, "properties": {"body_encoding": "base64"}}`, ""},
		"plain":        {`{"body": "[\u00e9]", "properties": {"body_encoding": null}}`, "[é]"},
		"utf-8":        {`{"body": "[1]", "properties": {"body_encoding": "utf-8"}}`, "[1]"},
		"broken lines": {`{"body": "W1syLCAz\nXSwge30sIG51bGxd", "properties": {"body_encoding": "base64"}}`, "[[2, 3], {}, null]"},
		"unexpected":   {`{"body": "MQ==", "content-type": 5, "properties": {"body_encoding": "base64", "priority": "x", "delivery_info": []}}`, "1"},
	} {
		e := decodeEnvelope(t, c.in)
		require.Equal(t, c.body, string(e.Body), name)
		require.NotNil(t, e.Headers, name)
		require.Zero(t, e.Properties.Priority)
	}
	e := decodeEnvelope(t, `{"properties": {"priority": "x", "reply_to": 5, "delivery_info": 1}}`)
	require.Equal(t, map[string]any{"priority": "x", "reply_to": int64(5), "delivery_info": int64(1)}, e.Properties.Extra)
}

func TestEnvelopeErrors(t *testing.T) {
	for _, in := range []string{
		"", "this is not json", "[]", "null", `{"body": "W10=", "headers": {}}`, `{"properties": null}`, `{"properties": []}`,
		`{"headers": [], "properties": {}}`, `{"headers": "x", "properties": {}}`, `{"body": 1, "properties": {}}`,
		`{"body": "a", "properties": {"body_encoding": "base64"}}`, `{"body": "", "properties": {"body_encoding": "rot13"}}`,
		`{"headers": {"x": {"__type__": "nope", "__value__": 1}}, "properties": {}}`,
	} {
		_, err := DecodeEnvelope([]byte(in), DefaultLimits())
		var envelope *EnvelopeError
		require.ErrorAs(t, err, &envelope, in)
	}
	limits := DefaultLimits()
	limits.Envelope = len(sampleEnvelope)
	_, err := DecodeEnvelope([]byte(sampleEnvelope), limits)
	require.NoError(t, err)
	limits.Envelope--
	_, err = DecodeEnvelope([]byte(sampleEnvelope), limits)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	_, err = DecodeEnvelope([]byte(strings.Replace(sampleEnvelope, "[1, null]", strings.Repeat("[", 300)+strings.Repeat("]", 300), 1)), DefaultLimits())
	require.ErrorAs(t, err, &limit)

	var encodeError *EncodeError
	_, err = (&Envelope{}).Encode()
	require.ErrorAs(t, err, &encodeError)
	_, err = (&Envelope{Headers: map[string]any{"f": func() {}}, Properties: Properties{DeliveryTag: "t"}}).Encode()
	require.ErrorAs(t, err, &encodeError)
	require.Equal(t, ".headers.f", encodeError.Path)
	headers, err := (&Envelope{}).HeadersJSON()
	require.NoError(t, err)
	require.Equal(t, "{}", string(headers))
}
