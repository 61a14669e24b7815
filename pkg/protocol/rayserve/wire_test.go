package rayserve_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
)

var now = time.Date(2026, 11, 29, 12, 0, 1, 0, time.FixedZone("", 3600))

const createdAt = "2026-11-29T10:59:00.5+00:00"

func TestResults(t *testing.T) {
	extra := func(more ...string) map[string]any {
		m := map[string]any{rayserve.ExtraCreatedAt: createdAt}
		if len(more) > 0 {
			m[rayserve.ExtraError] = more[0]
		}
		return m
	}
	boom := protocol.Exception{Type: "Outer.ValueError", Module: "app", Args: []any{"boom: 1"}}
	read := protocol.Exception{Type: "ValueError", Args: []any{"boom: 1"}}
	for name, c := range map[string]struct {
		meta protocol.Meta
		wire string
		back protocol.Meta // Status, Result and Extra
	}{
		"pending": {
			protocol.Meta{Status: protocol.StatePending},
			`"status": "PENDING", "result": null, "created_at": "2026-11-29T11:00:01+00:00", "completed_at": "2026-11-29T11:00:01+00:00"`,
			protocol.Meta{Status: protocol.StatePending, Extra: map[string]any{rayserve.ExtraCreatedAt: "2026-11-29T11:00:01+00:00"}},
		},
		"success": {
			protocol.Meta{Status: protocol.StateSuccess, Result: []float64{1, math.NaN()}, Extra: extra(), DateDone: now.Add(time.Microsecond)},
			`"status": "SUCCESS", "result": [1.0, NaN], "created_at": "` + createdAt + `", "completed_at": "2026-11-29T11:00:01.000001+00:00"`,
			protocol.Meta{},
		},
		"success without a result": {
			protocol.Meta{Status: protocol.StateSuccess, Extra: extra("too large")},
			`"status": "SUCCESS", "result": null, "created_at": "` + createdAt + `", "completed_at": "2026-11-29T11:00:01+00:00", "error": "too large"`,
			protocol.Meta{Status: protocol.StateSuccess, Extra: extra("too large")},
		},
		"failure": {
			protocol.Meta{Status: protocol.StateFailure, Result: boom, Extra: extra()},
			`"status": "FAILURE", "result": null, "created_at": "` + createdAt + `", "completed_at": "2026-11-29T11:00:01+00:00", "error": "ValueError: boom: 1"`,
			protocol.Meta{Status: protocol.StateFailure, Result: read, Extra: extra("ValueError: boom: 1")},
		},
		"failure in words": {
			protocol.Meta{Status: protocol.StateFailure, Result: &boom, Extra: extra("no such: handler")},
			`"status": "FAILURE", "result": null, "created_at": "` + createdAt + `", "completed_at": "2026-11-29T11:00:01+00:00", "error": "no such: handler"`,
			protocol.Meta{
				Status: protocol.StateFailure, Extra: extra("no such: handler"),
				Result: protocol.Exception{Type: "Exception", Args: []any{"no such: handler"}},
			},
		},
		"cancelled": {
			protocol.Meta{Status: protocol.StateRevoked, Extra: extra(), Result: protocol.Exception{Type: "TaskRevokedError", Args: []any{"revoked"}}},
			`"status": "CANCELLED", "result": null, "created_at": "` + createdAt + `", "completed_at": "2026-11-29T11:00:01+00:00"`,
			protocol.Meta{Status: protocol.StateRevoked, Extra: extra()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.meta.TaskID = "1"
			body, err := rayserve.EncodeResult(c.meta, now)
			require.NoError(t, err)
			require.Equal(t, `{"task_id": "1", `+c.wire+`}`, string(body))
			got, err := rayserve.DecodeResult(body, protocol.DefaultLimits())
			require.NoError(t, err)
			require.Equal(t, "1", got.TaskID)
			require.Equal(t, c.meta.Status.Ready(), !got.DateDone.IsZero())
			if c.back.Status != "" {
				c.back.TaskID, c.back.DateDone = "1", got.DateDone
				require.Equal(t, c.back, got)
			}
			again, err := rayserve.EncodeResult(got, now)
			require.NoError(t, err)
			require.Equal(t, string(body), string(again))
		})
	}
	_, err := rayserve.EncodeResult(protocol.Meta{TaskID: "1", Status: protocol.StateSuccess, Result: map[string]any{"image": []byte("x")}}, now)
	require.ErrorContains(t, err, "result.image: type []uint8")
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]protocol.Exception{
		"ValueError: a: b":        {Type: "ValueError", Args: []any{"a: b"}},
		"ValueError: ":            {Type: "ValueError"},
		"KeyError: 5":             {Type: "m.KeyError", Args: []any{int64(5)}},
		"OSError: (2, 'No such')": {Type: "OSError", Args: []any{int64(2), "No such"}},
		"Exception: x":            {Args: []any{"x"}},
	} {
		require.Equal(t, want, rayserve.ErrorText(e))
		require.Equal(t, want, rayserve.ErrorText(rayserve.ParseError(want)))
	}
}

func TestMalformedResults(t *testing.T) {
	for text, reason := range map[string]string{
		`{"status": "SUCCESS"}`:               "no task_id",
		`{"task_id": "1"}`:                    "no status",
		`{"task_id": "1", "status": 5}`:       "no status",
		`[]`:                                  "a list, not an object",
		`{"task_id": "1", "status": "SUCCESS`: "not JSON",
	} {
		_, err := rayserve.DecodeResult([]byte(text), protocol.DefaultLimits())
		var malformed *rayserve.MalformedError
		require.ErrorAs(t, err, &malformed)
		require.Equal(t, reason, malformed.Reason)
	}
	m, err := rayserve.DecodeResult([]byte(`{"task_id": "1", "status": "SUCCESS", "completed_at": "soon", "result": 5}`), protocol.DefaultLimits())
	require.NoError(t, err, "an unreadable time loses no result")
	require.Equal(t, protocol.Meta{TaskID: "1", Status: protocol.StateSuccess, Result: int64(5)}, m)
}

func TestQueryAndResponse(t *testing.T) {
	body, err := rayserve.EncodeQuery(rayserve.Query{Name: "f", Args: []any{1}, Kwargs: map[string]any{"k": nil}})
	require.NoError(t, err)
	require.Equal(t, `{"task_name": "f", "args": [1], "kwargs": {"k": null}}`, string(body)) //nolint:testifylint // byte for byte
	query, err := rayserve.DecodeQuery(body, protocol.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, &rayserve.Query{Name: "f", Args: []any{int64(1)}, Kwargs: map[string]any{"k": nil}}, query)
	_, err = rayserve.DecodeQuery([]byte(`{}`), protocol.DefaultLimits())
	require.ErrorContains(t, err, "no task_name")
	_, err = rayserve.EncodeQuery(rayserve.Query{Name: "f", Args: []any{make(chan int)}})
	require.ErrorContains(t, err, "args[0]")

	for want, r := range map[string]rayserve.Response{
		`{"status": "SUCCESS", "result": 5, "error": null}`:                {Status: rayserve.StatusSuccess, Result: int64(5)},
		`{"status": "FAILURE", "result": null, "error": "ValueError: no"}`: {Status: rayserve.StatusFailure, Error: "ValueError: no"},
	} {
		body, err := rayserve.EncodeResponse(r)
		require.NoError(t, err)
		require.Equal(t, want, string(body))
		got, err := rayserve.DecodeResponse(body, protocol.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	_, err = rayserve.EncodeResponse(rayserve.Response{Result: []byte{}})
	require.ErrorContains(t, err, "result: ")
	got, err := rayserve.DecodeResponse([]byte(`{"result": 5}`), protocol.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, rayserve.Response{Status: rayserve.StatusFailure, Result: int64(5)}, got)
	_, err = rayserve.DecodeResponse(nil, protocol.DefaultLimits())
	require.ErrorContains(t, err, "not JSON")
}

func TestProgress(t *testing.T) {
	for whole, pct := range map[string]float64{"42": 42.9, "0": -0.5, "-1": -1.5, "100": 100, "1000000000000000000000": 1e21} {
		want := rayserve.Progress{TaskID: "1", Pct: pct, Detail: "é"}
		body, tags, err := rayserve.EncodeProgress(want)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"task_id": "1", "pct": whole}, tags)
		got, err := rayserve.DecodeProgress(body, protocol.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := rayserve.DecodeProgress([]byte(`{"task_id": "1", "pct": 50, "detail": ""}`), protocol.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, rayserve.Progress{TaskID: "1", Pct: 50}, got)
	for _, pct := range []float64{math.NaN(), math.Inf(1)} {
		_, _, err := rayserve.EncodeProgress(rayserve.Progress{Pct: pct})
		require.ErrorContains(t, err, "not a percentage")
	}
	for text, want := range map[string]string{
		`{"pct": 5}`:                     "no task_id",
		`{"task_id": "1"}`:               "pct is null",
		`{"task_id": "1", "pct": "5"}`:   "pct is a string",
		`{"task_id": "1", "pct": NaN}`:   "pct is NaN",
		`{"task_id": "1", "pct": 1e999}`: "pct is +Inf",
	} {
		_, err := rayserve.DecodeProgress([]byte(text), protocol.DefaultLimits())
		require.ErrorContains(t, err, want)
	}
}

func TestStatuses(t *testing.T) {
	require.Equal(t, protocol.StateRevoked, rayserve.StatusCancelled.State())
	require.Equal(t, rayserve.StatusCancelled, rayserve.StatusOf(protocol.StateRevoked))
	require.Equal(t, rayserve.StatusStarted, rayserve.StatusOf(protocol.StateRetry))
	for status, ended := range map[rayserve.Status]bool{
		rayserve.StatusPending: false, rayserve.StatusStarted: false,
		rayserve.StatusSuccess: true, rayserve.StatusFailure: true, rayserve.StatusCancelled: true,
	} {
		require.Equal(t, ended, status.Ended())
		require.Equal(t, status, rayserve.StatusOf(status.State()))
	}
}
