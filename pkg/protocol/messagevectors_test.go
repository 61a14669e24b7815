package protocol

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func acceptAll(tb testing.TB) Accept {
	tb.Helper()
	accept, err := NewAccept([]string{"json", "yaml", "msgpack", "pickle"})
	require.NoError(tb, err)
	return accept
}

// emptyVectors hold no message, with what the producer raised instead of sending
// one; the capture of the broadcast of 5.2.6 raised nothing and missed it.
var emptyVectors = map[string]string{
	"vectors/msg_types_unsupported.json":              "EncodeError",
	"vectors/msg_types_set.json":                      "EncodeError",
	"vectors/celery-5.2.6/msg_types_unsupported.json": "EncodeError",
	"vectors/celery-5.2.6/msg_types_set.json":         "EncodeError",
	"vectors/celery-5.2.6/msg_types.json":             "EncodeError",
	"vectors/celery-5.2.6/msg_broadcast.json":         "",
}

// TestMessageVectors decodes every message that real producers sent and encodes
// it again.
func TestMessageVectors(t *testing.T) {
	for _, path := range vectorPaths(t, "msg_*.json") {
		t.Run(strings.TrimSuffix(path, ".json"), func(t *testing.T) {
			vector := readVector(t, path)
			messages := list(t, vector["messages"])
			if raised, ok := emptyVectors[path]; ok {
				require.Empty(t, messages)
				message, _ := vector["raised"].(string)
				require.True(t, strings.HasPrefix(message, raised), message)
				return
			}
			require.NotEmpty(t, messages)
			for _, m := range messages {
				checkMessageVector(t, filepath.Base(path), mapping(t, m))
			}
		})
	}
}

func checkMessageVector(t *testing.T, name string, vector map[string]any) {
	t.Helper()
	env := decodeEnvelope(t, text(t, vector["redis_value"]))
	requireSame(t, mapping(t, vector["envelope"])["headers"], env.Headers)
	m, err := DecodeMessage(env, DecodeOptions{Accept: acceptAll(t), Limits: DefaultLimits()})
	if name == "msg_pickle.json" {
		var disallowed *ContentDisallowedError
		require.ErrorAs(t, err, &disallowed)
		require.True(t, disallowed.Never)
		return
	}
	require.NoError(t, err)
	body := fromPython(t, vector["body_decoded"])
	if protocol1, ok := body.(map[string]any); ok {
		require.Equal(t, Protocol1, m.Protocol)
		checkProtocol1(t, m, protocol1)
	} else {
		require.Equal(t, Protocol2, m.Protocol)
		checkProtocol2(t, m, list(t, body))
	}
	checkReencoded(t, m, env, body)
}

func decodeEnvelope(t *testing.T, raw string) *Envelope {
	t.Helper()
	env, err := DecodeEnvelope([]byte(raw), DefaultLimits())
	require.NoError(t, err)
	return env
}

func checkProtocol2(t *testing.T, m *Message, body []any) {
	t.Helper()
	require.Len(t, body, 3)
	requireSame(t, body[0], m.Args)
	requireSame(t, body[1], m.Kwargs)
	embed := mapping(t, body[2])
	requireSame(t, embed["callbacks"], signatureValues(m.Callbacks))
	requireSame(t, embed["errbacks"], signatureValues(m.Errbacks))
	requireSame(t, embed["chain"], signatureValues(m.Chain))
	requireSame(t, embed["chord"], m.chordValue())
}

func checkProtocol1(t *testing.T, m *Message, body map[string]any) {
	t.Helper()
	require.Equal(t, body["task"], m.Task)
	require.Equal(t, body["id"], m.ID)
	requireSame(t, body["args"], m.Args)
	requireSame(t, body["kwargs"], m.Kwargs)
	requireSame(t, body["callbacks"], signatureValues(m.Callbacks))
	requireSame(t, body["errbacks"], signatureValues(m.Errbacks))
	requireSame(t, body["chord"], m.chordValue())
}

// checkReencoded encodes the message and finds everything in it that was in the
// original.
func checkReencoded(t *testing.T, m *Message, original *Envelope, body any) {
	t.Helper()
	env, err := EncodeMessage(m, EncodeOptions{Protocol: m.Protocol})
	require.NoError(t, err)
	// Celery 5.2 did not have these headers.
	want := map[string]any{}
	if m.Protocol == Protocol2 {
		want = map[string]any{"replaced_task_nesting": 0, "stamped_headers": nil, "stamps": map[string]any{}}
	}
	maps.Copy(want, original.Headers)
	if want["eta"] == "2031-05-06T07:08:09" {
		// A naive time is UTC, and says so when it goes out again.
		want["eta"] = "2031-05-06T07:08:09+00:00"
	}
	requireSame(t, want, env.Headers)
	require.Equal(t, original.ContentType, env.ContentType)
	require.Equal(t, original.ContentEncoding, env.ContentEncoding)
	require.Equal(t, original.Properties.CorrelationID, env.Properties.CorrelationID)
	require.Equal(t, original.Properties.ReplyTo, env.Properties.ReplyTo)
	require.Equal(t, original.Properties.Priority, env.Properties.Priority)
	require.Equal(t, original.Properties.DeliveryInfo.RoutingKey, env.Properties.DeliveryInfo.RoutingKey)

	env.Properties.DeliveryTag = "tag"
	encoded, err := env.Encode()
	require.NoError(t, err)
	again := decodeEnvelope(t, string(encoded))
	compression, _ := again.Headers["compression"].(string)
	payload := again.Body
	if compression != "" {
		payload, err = Decompress(compression, payload, DefaultLimits().Body)
		require.NoError(t, err)
	}
	v, err := Deserialize(payload, again.ContentType, again.ContentEncoding, acceptAll(t), DefaultLimits())
	require.NoError(t, err)
	requireSame(t, body, v)
}

// TestPushedMessages does the same with the messages that were sent while results
// were captured, retries among them.
func TestPushedMessages(t *testing.T) {
	count := 0
	for _, path := range vectorPaths(t, "res_*.json") {
		for _, pushed := range list(t, readVector(t, path)["messages_pushed"]) {
			vector := mapping(t, pushed)
			if _, ok := vector["body_decoded"]; !ok {
				continue
			}
			count++
			checkMessageVector(t, filepath.Base(path), vector)
		}
	}
	require.Greater(t, count, 30)
}

// TestVectorFields looks at fields one by one, where the vectors say what they
// are to be.
func TestVectorFields(t *testing.T) {
	decode := func(path string) *Message {
		messages := list(t, readVector(t, "vectors/"+path+".json")["messages"])
		m, err := DecodeMessage(decodeEnvelope(t, text(t, mapping(t, messages[0])["redis_value"])),
			DecodeOptions{Accept: acceptAll(t), Limits: DefaultLimits()})
		require.NoError(t, err)
		return m
	}
	for _, dir := range []string{"", "celery-5.2.6/"} {
		tz := decode(dir + "msg_eta_tz")
		require.Equal(t, "2031-05-06T01:38:09.123456+00:00", FormatTime(tz.ETA.UTC()))
		naive := decode(dir + "msg_eta_naive")
		require.Equal(t, "2031-05-06T07:08:09+00:00", FormatTime(naive.ETA))
		require.True(t, decode(dir+"msg_countdown_zero").ETA.IsZero())

		require.NotEmpty(t, decode(dir+"msg_group").GroupID)
		limits := decode(dir + "msg_timelimit_call")
		require.Greater(t, limits.TimeLimit, limits.SoftTimeLimit)
		require.Positive(t, limits.SoftTimeLimit)

		chain := decode(dir + "msg_chain4")
		require.Len(t, chain.Chain, 3)

		shadow := decode(dir + "msg_shadow_headers")
		require.NotEmpty(t, shadow.Shadow)
		require.Contains(t, shadow.CustomHeaders, "x-trace")
		require.Len(t, shadow.CustomHeaders, 2)

		ignored := decode(dir + "msg_ignore_result_call")
		require.NotNil(t, ignored.IgnoreResult)
		require.True(t, *ignored.IgnoreResult)

		require.Equal(t, 5, decode(dir+"msg_priority").Priority)
		require.Equal(t, "application/x-gzip", decode(dir+"msg_compress_zlib").Compression)
	}
	group := decode("msg_group")
	require.NotNil(t, group.GroupIndex)
	require.Equal(t, 0, *group.GroupIndex)

	stamped := decode("msg_stamps")
	require.NotEmpty(t, stamped.StampedHeaders)
	require.Contains(t, stamped.Stamps, stamped.StampedHeaders[0])
}
