package protocol

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sendAgain is a retry: one more of them, and an ETA.
func sendAgain(tb testing.TB, data []byte, o AgainOptions, eta time.Time) []byte {
	tb.Helper()
	m := decodeWire(tb, data)
	m.Retries++
	m.ETA = eta
	o.Limits = DefaultLimits()
	env, err := Again(data, m, o)
	require.NoError(tb, err)
	out, headers, err := env.Wire(uuid.NewString())
	require.NoError(tb, err)
	_, err = DecodeJSON(headers, DefaultLimits())
	require.NoError(tb, err, "the headers alone are JSON too")
	return out
}

func decodeWire(tb testing.TB, data []byte) *Message {
	tb.Helper()
	env, err := DecodeEnvelope(data, DefaultLimits())
	require.NoError(tb, err)
	m, err := DecodeMessage(env, DecodeOptions{Accept: acceptAll(tb), Limits: DefaultLimits()})
	require.NoError(tb, err)
	return m
}

// headerTexts are the headers as they are written, but for those that a retry
// changes.
func headerTexts(tb testing.TB, data []byte) map[string]string {
	tb.Helper()
	raw, err := rawHeaders(data, DefaultLimits())
	require.NoError(tb, err)
	texts := map[string]string{}
	for name, value := range raw {
		texts[name] = string(value)
	}
	for _, name := range []string{"retries", "eta", "redelivered"} {
		delete(texts, name)
	}
	return texts
}

// TestAgainKeepsTheMessage retries every message that real producers sent a
// hundred times, and a few times in the other protocol.
func TestAgainKeepsTheMessage(t *testing.T) {
	eta := time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)
	count := 0
	for _, path := range vectorPaths(t, "msg_*.json") {
		if path == "vectors/msg_pickle.json" || path == "vectors/celery-5.2.6/msg_pickle.json" {
			continue // never decoded
		}
		for i, entry := range list(t, readVector(t, path)["messages"]) {
			received := []byte(text(t, mapping(t, entry)["redis_value"]))
			for _, protocol := range []int{Protocol1, Protocol2} {
				count++
				t.Run(fmt.Sprintf("%s/%d/protocol %d", path, i, protocol), func(t *testing.T) {
					checkAgain(t, received, protocol, eta)
				})
			}
		}
	}
	require.Greater(t, count, 150)
}

func checkAgain(t *testing.T, received []byte, protocol int, eta time.Time) {
	t.Helper()
	want := decodeWire(t, received)
	retries := 100
	if protocol != want.Protocol || len(received) > 10_000 {
		retries = 3 // after the first it is as above; or it takes long
	}
	first := sendAgain(t, received, AgainOptions{Protocol: protocol}, eta)
	last := first
	for range retries - 1 {
		last = sendAgain(t, last, AgainOptions{Protocol: protocol}, eta)
	}
	got := decodeWire(t, last)
	require.Equal(t, want.Retries+retries, got.Retries)
	require.True(t, eta.Equal(got.ETA))
	if protocol == want.Protocol {
		require.Equal(t, headerTexts(t, received), headerTexts(t, last), "the headers, byte for byte")
		if want.Compression == "" { // a compressed body that holds the retries varies in size
			require.InDelta(t, len(first), len(last), 2*float64(len(strconv.Itoa(got.Retries))))
		}
	}
	if protocol == Protocol1 && want.Protocol == Protocol2 {
		return // protocol 1 has no room for most of it
	}
	if want.Protocol == Protocol1 { // what a publisher of protocol 2 fills in
		got.RootID, got.Stamps = want.RootID, want.Stamps
	}
	got.Protocol, got.Retries, got.ETA = want.Protocol, want.Retries, want.ETA
	got.ArgsRepr, got.KwargsRepr = want.ArgsRepr, want.KwargsRepr // protocol 1 has none
	requireSameMessage(t, want, got)
}

// requireSameMessage compares arguments through text, for which NaN is NaN.
func requireSameMessage(tb testing.TB, want, got *Message) {
	tb.Helper()
	require.Equal(tb, fullRepr(want.Args), fullRepr(got.Args))
	require.Equal(tb, fullRepr(want.Kwargs), fullRepr(got.Kwargs))
	a, b := *want, *got
	a.Args, a.Kwargs, b.Args, b.Kwargs = nil, nil, nil, nil
	require.Equal(tb, a, b)
}

// odd is a message with headers and arguments that don't survive being read and
// written: numbers, spaces, escapes, a uuid with its version.
const oddHeaders = `"x-float": 1.0, "x-huge": 1e400, "x-list": [1.00, -0.0, 1E5, 1e16], "x-uuid":
 {"__type__": "uuid", "__value__": {"hex": "936da01f9abd4d9d80c702af85c822a8", "version": 4}},
 "x-text": "\u00e9\/é", "x-nan": NaN, "x-int": 123456789012345678901234567890`

func oddMessage(body, extra string) []byte {
	return []byte(`{"body": ` + strconv.Quote(body) + `, "content-type": "application/json", "content-encoding": "utf-8",
 "headers": {"task": "t", "id": "i", "lang": "js", "expires": "2031-05-06T07:08:09", "timelimit": [1.50, null],
 "stamps": {"s": 1.00}, "stamped_headers": ["s"], "redelivered": true, ` + oddHeaders + `},
 "properties": {"correlation_id": "i", "delivery_info": {"routing_key": "celery", "redelivered": true}, "priority": 3,
 "delivery_mode": 1, "delivery_tag": "d", "body_encoding": "utf-8"` + extra + `}}`)
}

func TestAgainKeepsWhatCannotBeWritten(t *testing.T) {
	body := `[[1e400, 1.00], {"k": 1E5}, {"chain": null, "x-mine": 7}]`
	received := oddMessage(body, `, "x-property": [1]`)
	last := received
	for range 3 {
		last = sendAgain(t, last, AgainOptions{Protocol: Protocol2}, time.Time{})
	}
	require.Equal(t, headerTexts(t, received), headerTexts(t, last))
	env, err := DecodeEnvelope(last, DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, body, string(env.Body))
	require.Equal(t, 1, env.Properties.DeliveryMode)
	require.Equal(t, map[string]any{"x-property": []any{int64(1)}}, env.Properties.Extra)
	require.NotContains(t, env.Headers, "redelivered")
	require.False(t, env.Properties.DeliveryInfo.Redelivered)
	require.NotEqual(t, "d", env.Properties.DeliveryTag)
	require.Equal(t, 3, decodeWire(t, last).Retries)
}

// TestAgainWithChanges: what the caller changed is changed, and nothing else.
func TestAgainWithChanges(t *testing.T) {
	received := oddMessage(`[[1], {}, {"chain": [{"task": "next"}]}]`, "")
	m := decodeWire(t, received)
	m.Args, m.Kwargs, m.ArgsRepr, m.KwargsRepr = []any{"new"}, map[string]any{"k": int64(2)}, "('new',)", "{'k': 2}"
	m.Queue, m.Priority = "slow", 9
	env, err := Again(received, m, AgainOptions{
		Protocol: Protocol2, NewArguments: true, Limits: DefaultLimits(),
		Headers: map[string]any{"x-huge": "replaced", "x-new": int64(1), "task": "not this one"},
	})
	require.NoError(t, err)
	out, _, err := env.Wire("tag")
	require.NoError(t, err)
	want, got := headerTexts(t, received), headerTexts(t, out)
	want["x-huge"], want["x-new"] = `"replaced"`, "1"
	want["argsrepr"], want["kwargsrepr"] = `"('new',)"`, `"{'k': 2}"`
	for name, value := range want {
		require.Equal(t, value, got[name], name)
	}
	again := decodeWire(t, out)
	require.Equal(t, []any{"new"}, again.Args)
	require.Equal(t, map[string]any{"k": int64(2)}, again.Kwargs)
	require.Equal(t, "slow", again.Queue)
	require.Equal(t, 9, again.Priority)
	require.Equal(t, "t", again.Task)
	require.Len(t, again.Chain, 1)
}

// TestAgainHybrid: a protocol 1 body under headers that beat it.
func TestAgainHybrid(t *testing.T) {
	received := []byte(`{"body": "{\"task\": \"t\", \"id\": \"i\", \"args\": [1], \"kwargs\": {}, \"retries\": 1}",
 "content-type": "application/json", "content-encoding": "utf-8", "properties": {},
 "headers": {"task": "t", "id": "j", "root_id": "r", "retries": 4, "x-huge": 1e400}}`)
	for _, protocol := range []int{Protocol1, Protocol2} {
		last := received
		for range 2 {
			last = sendAgain(t, last, AgainOptions{Protocol: protocol}, time.Time{})
		}
		got := decodeWire(t, last)
		require.Equal(t, protocol, got.Protocol)
		require.Equal(t, 6, got.Retries)
		require.Equal(t, "j", got.ID)
		require.Equal(t, "r", got.RootID)
		require.Equal(t, "1e400", headerTexts(t, last)["x-huge"])
	}
}

func TestAgainErrors(t *testing.T) {
	received := oddMessage(`[[], {}, {}]`, "")
	m := decodeWire(t, received)
	m.ETA = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	var encode *EncodeError
	_, err := Again(received, m, AgainOptions{Protocol: Protocol2, Limits: DefaultLimits()})
	require.ErrorAs(t, err, &encode)
	m.ETA, m.Args = time.Time{}, []any{make(chan int)}
	_, err = Again(received, m, AgainOptions{Protocol: Protocol2, NewArguments: true, Limits: DefaultLimits()})
	require.ErrorAs(t, err, &encode)
	var envelope *EnvelopeError
	_, err = Again([]byte("no json"), m, AgainOptions{Protocol: Protocol2, Limits: DefaultLimits()})
	require.ErrorAs(t, err, &envelope)
}

// FuzzAgain: what can be read can be sent again, and stays what it is.
func FuzzAgain(f *testing.F) {
	f.Add(oddMessage(`[[1e400], {}, {"chain": [{"task": "next"}]}]`, ""))
	f.Add([]byte(`{"body": "{\"task\": \"t\", \"id\": \"i\", \"args\": [1]}", "content-type": "application/json",
 "properties": {}, "headers": {"id": "j", "retries": 4, "headers": {"headers": 1}}, "headers": {"x": {"headers": [1E5]}}}`))
	f.Add([]byte(`{"body": "{\"task\": \"0\", \"id\": \"0\"}", "content-type": "application/json", "properties": {}, "headers": {"id": {}}}`))
	limits := Limits{Envelope: 1 << 20, Body: 1 << 20, Depth: 50, Items: 10_000}
	f.Fuzz(func(t *testing.T, data []byte) {
		env, err := DecodeEnvelope(data, limits)
		if err != nil {
			return
		}
		m, err := DecodeMessage(env, DecodeOptions{Accept: acceptAll(t), Limits: limits})
		if err != nil {
			return
		}
		m.Retries = 7
		for _, protocol := range []int{Protocol1, Protocol2} {
			out, err := Again(data, m, AgainOptions{Protocol: protocol, Limits: limits})
			if err != nil {
				continue // what can be read can be too long to be written
			}
			body, _, err := out.Wire("tag")
			if err != nil {
				continue
			}
			got, err := DecodeEnvelope(body, DefaultLimits())
			require.NoError(t, err)
			again, err := DecodeMessage(got, DecodeOptions{Accept: acceptAll(t), Limits: DefaultLimits()})
			require.NoError(t, err)
			require.Equal(t, m.ID, again.ID)
			require.Equal(t, 7, again.Retries)
		}
	})
}
