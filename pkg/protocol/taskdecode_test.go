package protocol

import (
	"encoding/base64"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// taskOf is an envelope with these headers and body.
func taskOf(headers, body string) []byte {
	return fmt.Appendf(nil, `{"content-type": "application/json", "content-encoding": "utf-8", "headers": %s, "body": "%s",
		"properties": {"body_encoding": "base64", "delivery_tag": "t", "correlation_id": "c", "priority": 3,
		"delivery_info": {"routing_key": "q"}}}`, headers, base64.StdEncoding.EncodeToString([]byte(body)))
}

const emptyBody = `[[], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`

// headersOfTasks, and whether they are read straight into a message.
var headersOfTasks = map[string]bool{
	`{"task": "t", "id": "i"}`: true,
	`{"task": "t", "id": "i", "lang": "py", "shadow": null, "eta": "2020-01-02T03:04:05", "expires": "2020-01-02T03:04:05+02:00", "retries": 3.0}`: true,
	`{"task": "t", "id": "i", "timelimit": [null, null], "timelimit": [1, 2.5], "group": "g", "group_index": 2, "group_index": null}`:              true,
	`{"task": "t", "id": "i", "timelimit": [1, 2], "timelimit": [null, null], "timelimit" : [ null , null ]}`:                                      true,
	`{"task": "t", "id": "i", "stamps": {"a": 1}, "stamped_headers": ["a"], "ignore_result": 1, "redelivered": true, "group_index": -4}`:           true,
	`{"task": "t", "id": "i", "stamps": null, "stamped_headers": [], "ignore_result": false, "redelivered": 1, "compression": ""}`:                 true,
	`{"task": "t", "id": "i", "x": {"__type__": "bytes", "__value__": "eA=="}, "x": NaN, "compression": null, "origin": "o\u00e4"}`:                true,
	`{"task": "t", "id": "i", "root_id": "r", "parent_id": "p", "argsrepr": "()", "kwargsrepr": "{}", "replaced_task_nesting": 2}`:                 true,

	`{"task": "t", "id": ""}`: false,
	`{"id": "i"}`:             false,
	`{"task": "t"}`:           false,
	`null`:                    false,
	`{"task": 5, "id": "i"}`:  false,
	`{"task": "unknown", "id": "i", "root_id": "r"}`:                     false,
	`{"task": "t", "id": "i", "retries": -1}`:                            false,
	`{"task": "t", "id": "i", "retries": "x", "retries": 1}`:             false,
	`{"task": "t", "id": "i", "group_index": "x"}`:                       false,
	`{"task": "t", "id": "i", "ignore_result": "x"}`:                     false,
	`{"task": "t", "id": "i", "stamped_headers": "x"}`:                   false,
	`{"task": "t", "id": "i", "stamped_headers": [1]}`:                   false,
	`{"task": "t", "id": "i", "stamps": [1]}`:                            false,
	`{"task": "t", "id": "i", "eta": 5}`:                                 false,
	`{"task": "t", "id": "i", "timelimit": [null, null, null]}`:          false,
	`{"task": "t", "id": "i", "compression": "rot13"}`:                   false,
	`{"task": "t", "id": "i", "__type__": "bytes"}`:                      false,
	`{"task": "t", "id": "i", "shadow": {"__type__": "x"}, "origin": 1}`: false,
}

// bodiesOfTasks, and whether they are.
var bodiesOfTasks = map[string]bool{
	emptyBody:                          true,
	`[[1, "a"], {"b": 2}, {}]`:         true,
	` [ "abc" , {"args": 1} , null ] `: true,
	`[null, {}, {"chain": [{"task": "x"}], "callbacks": {"task": "y"}, "errbacks": [], "chord": {"task": "z"}, "other": 1}]`: true,
	`[[], {}, {"chord": {"task": "z"}, "chord": null, "chain": [{"task": "x"}], "chain": null}]`:                             true,

	``:                         false,
	`[]`:                       false,
	`[[], {}]`:                 false,
	`[[], {}, {}, {}]`:         false,
	`[[], {}, {}] x`:           false,
	`["args", {}, {}]`:         false,
	`[[], null, {}]`:           false,
	`[[], {}, []]`:             false,
	`[[], {}, {"chain": [1]}]`: false,
	`[[], {}, {"chord": 1}]`:   false,
	`[[], {"__type__": "bytes", "__value__": "eA=="}, {}]`: false,
	`[[], {}, {"__type__": "bytes", "__value__": "eA=="}]`: false,
	`{"task": "t", "id": "i", "args": [], "kwargs": {}}`:   false,
}

// TestTasksOfTheUsualForm: what Celery writes is read the short way, and what is not is
// left to the long one.
func TestTasksOfTheUsualForm(t *testing.T) {
	t.Parallel()
	for headers, usual := range headersOfTasks {
		requireUsual(t, usual, taskOf(headers, emptyBody))
	}
	for body, usual := range bodiesOfTasks {
		requireUsual(t, usual, taskOf(`{"task": "t", "id": "i"}`, body))
	}
	requireUsual(t, false, []byte(sampleEnvelope[1:]))
}

func requireUsual(t *testing.T, usual bool, data []byte) {
	t.Helper()
	o := DecodeOptions{Limits: DefaultLimits(), Known: knownTask}
	_, _, ok := readTask(data, o)
	require.Equal(t, usual, ok, "%s", data)
	sameTaskBothWays(t, data, o)
}

func knownTask(task string) bool { return task != "unknown" }

// TestVectorsBothWays: the messages that Celery has written are the same both ways.
func TestVectorsBothWays(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("testdata/vectors")
	require.NoError(t, err)
	usual := 0
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		messages, ok := readVector(t, "vectors/"+entry.Name())["messages"].([]any)
		for _, message := range messages {
			fields, isMap := message.(map[string]any)
			raw, isText := fields["redis_value"].(string)
			if !ok || !isMap || !isText {
				continue
			}
			o := DecodeOptions{Accept: acceptAll(t), Limits: DefaultLimits()}
			if _, _, ok := readTask([]byte(raw), o); ok {
				usual++
			}
			sameTaskBothWays(t, []byte(raw), o)
		}
	}
	require.Greater(t, usual, 10)
}

func FuzzTaskWays(f *testing.F) {
	for headers := range headersOfTasks {
		f.Add(headers, emptyBody)
	}
	for body := range bodiesOfTasks {
		f.Add(`{"task": "t", "id": "i"}`, body)
	}
	f.Fuzz(func(t *testing.T, headers, body string) {
		sameTaskBothWays(t, taskOf(headers, body), DecodeOptions{Limits: fuzzLimits(), Known: knownTask})
	})
}

// FuzzTaskSerializers: bodies that are not JSON, or not accepted.
func FuzzTaskSerializers(f *testing.F) {
	f.Add("application/x-yaml", "[[1], {a: 1}, null]")
	f.Add("application/x-yaml", "[args, {}, {chain: [{task: x}]}]")
	f.Add("application/x-msgpack", "\x93\x90\x80\xc0")
	f.Add("application/data", "args")
	f.Add("application/json", emptyBody)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		accept, err := NewAccept([]string{"yaml", "msgpack", "application/data"})
		require.NoError(t, err)
		e := Envelope{
			Body: []byte(body), ContentType: contentType, Headers: map[string]any{"task": "t", "id": "i"},
			Properties: Properties{DeliveryTag: "t"},
		}
		data, err := e.Encode()
		require.NoError(t, err)
		sameTaskBothWays(t, data, DecodeOptions{Accept: accept, Limits: fuzzLimits()})
	})
}

// FuzzTaskLimits: with limits that a document just reaches, or just not.
func FuzzTaskLimits(f *testing.F) {
	f.Add(`{"task": "t", "id": "i", "timelimit": [null, null]}`, emptyBody, 40, 3)
	f.Add(`{"task": "t", "id": "i", "stamps": {"a": 1}}`, emptyBody, 45, 4)
	f.Fuzz(func(t *testing.T, headers, body string, items, depth int) {
		limits := Limits{Envelope: 1 << 16, Body: 1 << 14, Depth: depth, Items: items}
		sameTaskBothWays(t, taskOf(headers, body), DecodeOptions{Limits: limits, Known: knownTask})
	})
}

// sameTaskBothWays: what is read the short way is what the long way makes of it, and
// nothing is read the short way that the long way refuses.
func sameTaskBothWays(t *testing.T, data []byte, o DecodeOptions) {
	t.Helper()
	wantEnvelope, want, wantErr := decodeAnyTask(data, o)
	gotEnvelope, got, err := DecodeTask(data, o)
	require.Equal(t, wantErr, err)
	if wantErr != nil {
		require.Nil(t, got)
		return
	}
	// A NaN is not equal to itself, but looks like it.
	require.Equal(t, takeValues(wantEnvelope, want), takeValues(gotEnvelope, got))
	require.Equal(t, wantEnvelope, gotEnvelope)
	require.Equal(t, want, got)
}

// takeValues takes what may hold a NaN out of a message, as text.
func takeValues(e *Envelope, m *Message) []string {
	values := []string{
		fullRepr(e.Properties.Extra), fullRepr(m.Args), fullRepr(m.Kwargs), fullRepr(m.Stamps), fullRepr(m.CustomHeaders),
		fmt.Sprint(e.Properties.Extra == nil, m.Stamps == nil, m.CustomHeaders == nil),
	}
	for _, list := range [][]Signature{m.Callbacks, m.Errbacks, m.Chain} {
		for i := range list {
			values = append(values, fullRepr(list[i].Value()))
			list[i] = Signature{}
		}
	}
	if m.Chord != nil {
		values = append(values, fullRepr(m.Chord.Value()))
		m.Chord = &Signature{}
	}
	e.Properties.Extra, m.Args, m.Kwargs, m.Stamps, m.CustomHeaders = nil, nil, nil, nil, nil
	return values
}
