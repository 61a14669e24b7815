package protocol

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// poison is what becomes of each message of behaviour_poison.json, all of which
// were given to a real worker. The cases "crash" made it exit.
var poison = map[string]string{
	"minimal_headers_only_task_id": "ok",
	"unknown_task":                 "unknown task",
	"no_id":                        "crash: invalid task",
	"id_null":                      "invalid task",
	"id_int":                       "invalid task",
	"body_null":                    "crash: invalid task",
	"body_empty_string":            "crash: invalid task",
	"body_not_json":                "decode",
	"body_two_elems":               "crash: invalid task",
	"body_four_elems":              "crash: invalid task",
	"embed_null":                   "ok",
	"embed_missing_keys":           "ok",
	"kwargs_null":                  "invalid task",
	"kwargs_list":                  "invalid task",
	"args_null":                    "type error",
	"args_dict":                    "ok",
	"wrong_arity":                  "ok",
	"json_unknown_type_marker":     "decode",
	"pickle_not_accepted":          "disallowed",
	"yaml_not_accepted":            "disallowed",
	"unknown_ctype":                "disallowed",
	"no_ctype":                     "crash: invalid task",
	"text_plain":                   "disallowed",
	"app_data":                     "crash: invalid task",
	"bad_compression":              "decode",
	"unknown_compression":          "decode",
	"eta_bad":                      "invalid task",
	"eta_int":                      "invalid task",
	"eta_empty":                    "crash: invalid task",
	"eta_past":                     "ok",
	"eta_overflow":                 "ok",
	"eta_9999":                     "ok",
	"eta_Z":                        "ok",
	"eta_space_sep":                "ok",
	"expires_bad":                  "invalid task",
	"expires_past":                 "ok",
	"no_task_header_not_v1":        "unknown message",
	"v1_ok":                        "ok",
	"v1_no_args":                   "ok",
	"v1_no_id":                     "invalid task",
	"v1_kwargs_list":               "invalid task",
	"v1_unknown_task":              "unknown task",
	"v1_unknown_task_no_id":        "crash: invalid task",
	"v1_taskset":                   "ok",
	"hybrid":                       "ok",
	"headers_null":                 "unknown message",
	"unknown_task_no_id":           "crash: invalid task",
	"timelimit_short":              "crash: invalid task",
	"timelimit_null":               "ok",
	// Celery runs it, and fails if it is retried.
	"retries_string":         "invalid task",
	"redelivered_true":       "ok",
	"not_json_envelope":      "crash: envelope",
	"envelope_no_properties": "crash: envelope",
}

func TestPoison(t *testing.T) {
	cases := mapping(t, readVector(t, "vectors/behaviour_poison.json")["cases"])
	require.Len(t, cases, len(poison))
	crashes := 0
	for name, v := range cases {
		t.Run(name, func(t *testing.T) {
			want, ok := poison[name]
			require.True(t, ok)
			c := mapping(t, v)
			class := classify(t, text(t, c["raw_pushed"]))
			if c["worker_survived"] == false {
				crashes++
				class = "crash: " + class
			}
			require.Equal(t, want, class)
		})
	}
	require.Equal(t, 13, crashes)
}

// classify decodes as an engine would and names the error's type.
func classify(t *testing.T, raw string) string {
	t.Helper()
	env, err := DecodeEnvelope([]byte(raw), DefaultLimits())
	if err != nil {
		var envelope *EnvelopeError
		require.ErrorAs(t, err, &envelope)
		return "envelope"
	}
	m, err := DecodeMessage(env, DecodeOptions{
		Limits: DefaultLimits(),
		Known:  func(task string) bool { return task == "proj.add" || task == "proj.echo" },
	})
	if err != nil {
		require.Nil(t, m)
		return errorClass(t, err)
	}
	if _, err := m.Positional(); err != nil {
		var typeError *TypeError
		require.ErrorAs(t, err, &typeError)
		return "type error"
	}
	return "ok"
}

func errorClass(t *testing.T, err error) string {
	t.Helper()
	var (
		unknown    *UnknownTaskError
		disallowed *ContentDisallowedError
		decode     *DecodeError
		invalid    *InvalidTaskError
	)
	require.Error(t, err)
	switch {
	case errors.As(err, &unknown):
		return "unknown task"
	case errors.As(err, &disallowed):
		return "disallowed"
	case errors.As(err, &decode):
		return "decode"
	case errors.As(err, &invalid):
		return "invalid task"
	}
	require.ErrorIs(t, err, ErrUnknownMessage)
	return "unknown message"
}

// TestPoisonErrors checks what the errors say, as far as the vectors do.
func TestPoisonErrors(t *testing.T) {
	cases := mapping(t, readVector(t, "vectors/behaviour_poison.json")["cases"])
	decode := func(name string) error {
		env := decodeEnvelope(t, text(t, mapping(t, cases[name])["raw_pushed"]))
		_, err := DecodeMessage(env, DecodeOptions{Limits: DefaultLimits(), Known: func(task string) bool { return task == "proj.add" }})
		return err
	}
	require.EqualError(t, decode("pickle_not_accepted"), "Refusing to deserialize untrusted content of type pickle (application/x-python-serialize)")
	require.EqualError(t, decode("yaml_not_accepted"), "Refusing to deserialize untrusted content of type yaml (application/x-yaml)")
	require.EqualError(t, decode("unknown_ctype"), "Refusing to deserialize untrusted content of type application/foo (application/foo)")

	var invalid *InvalidTaskError
	require.ErrorAs(t, decode("eta_bad"), &invalid)
	require.Equal(t, "invalid ETA value 'tomorrow': invalid literal for int() with base 10: b'tomo'", invalid.Reason)
	require.Equal(t, "proj.add", invalid.Task)
	require.Equal(t, "65522a3d-8a3b-4ecf-b0ab-cfb3d2fbff5d", invalid.ID)
	require.ErrorAs(t, decode("eta_int"), &invalid)
	require.Equal(t, "invalid ETA value 5: object of type 'int' has no len()", invalid.Reason)
	require.ErrorAs(t, decode("expires_bad"), &invalid)
	require.Equal(t, "invalid expires value 'zzz': ISO string too short", invalid.Reason)
	require.ErrorAs(t, decode("v1_kwargs_list"), &invalid)
	require.Equal(t, "Task keyword arguments must be a mapping", invalid.Reason)
	require.Equal(t, "v1-c", invalid.ID)

	var unknown *UnknownTaskError
	require.ErrorAs(t, decode("unknown_task"), &unknown)
	require.Equal(t, UnknownTaskError{Task: "no.such", ID: "273f64c2-138a-482d-81f0-7aa1c4ba2605", CorrelationID: "x"}, *unknown)
	require.ErrorAs(t, decode("v1_unknown_task"), &unknown)
	require.Equal(t, UnknownTaskError{Task: "nope", ID: "v1-d", CorrelationID: "x"}, *unknown)
}
