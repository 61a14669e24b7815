package rayserve_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
)

// fromPython is a task as Python's json.dumps writes it.
const fromPython = `{"task_id": "7d0e6f0e-3d3c-4a57-8f0b-2f5f3a1f9c11", "task_name": "score", ` +
	`"args": [1, 12345678901234567890, 1e+22, NaN, "\u00e9\ud83d\ude00", null, true, {"__type__": "uuid", "__value__": 5}], ` +
	`"kwargs": {"x": [0.1, -Infinity]}, "created_at": "2026-11-29T12:00:00.123456+00:00"}`

func TestTaskAsPythonWritesIt(t *testing.T) {
	task, err := rayserve.DecodeTask([]byte(fromPython), protocol.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, "7d0e6f0e-3d3c-4a57-8f0b-2f5f3a1f9c11", task.ID)
	require.Equal(t, "score", task.Name)
	require.Equal(t, "2026-11-29T12:00:00.123456+00:00", task.CreatedAt)
	huge, _ := new(big.Int).SetString("12345678901234567890", 10)
	require.Equal(t, huge, task.Args[1])
	require.True(t, math.IsNaN(task.Args[3].(float64)))
	require.Equal(t, map[string]any{"__type__": "uuid", "__value__": int64(5)}, task.Args[7], "kombu's types mean nothing here")
	require.Equal(t, map[string]any{"x": []any{0.1, math.Inf(-1)}}, task.Kwargs)

	again, err := rayserve.EncodeTask(*task)
	require.NoError(t, err)
	require.Equal(t, fromPython, string(again)) //nolint:testifylint // byte for byte, and NaN is not JSON for it
}

func TestTaskWithoutArguments(t *testing.T) {
	body, err := rayserve.EncodeTask(rayserve.Task{ID: "1", Name: "f"})
	require.NoError(t, err)
	require.Equal(t, `{"task_id": "1", "task_name": "f", "args": [], "kwargs": {}, "created_at": ""}`, string(body)) //nolint:testifylint // byte for byte
	for _, text := range []string{`{"task_name": "f"}`, `{"task_name": "f", "task_id": null, "args": null, "kwargs": null, "created_at": 5}`} {
		task, err := rayserve.DecodeTask([]byte(text), protocol.DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, &rayserve.Task{Name: "f", Args: []any{}, Kwargs: map[string]any{}}, task)
	}
}

func TestMalformedTasks(t *testing.T) {
	for text, want := range map[string]rayserve.MalformedError{
		"\xff\xfe":                             {Reason: "not UTF-8"},
		"":                                     {Reason: "not JSON"},
		`{"task_id": `:                         {Reason: "not JSON"},
		`[1]`:                                  {Reason: "a list, not an object"},
		`"x"`:                                  {Reason: "a string, not an object"},
		`null`:                                 {Reason: "null, not an object"},
		`{"task_id": "1"}`:                     {Reason: "no task_name", ID: "1"},
		`{"task_id": "1", "task_name": ""}`:    {Reason: "no task_name", ID: "1"},
		`{"task_id": "1", "task_name": 5}`:     {Reason: "no task_name", ID: "1"},
		`{"task_id": [], "task_name": "f"}`:    {Reason: "task_id is a list, not a string", Name: "f"},
		`{"task_id": 5, "task_name": "f"}`:     {Reason: "task_id is a number, not a string", Name: "f"},
		`{"task_name": "f", "args": {"a": 1}}`: {Reason: "args are an object, not a list", Name: "f"},
		`{"task_name": "f", "args": "abc"}`:    {Reason: "args are a string, not a list", Name: "f"},
		`{"task_name": "f", "kwargs": [1]}`:    {Reason: "kwargs are a list, not an object", Name: "f"},
		`{"task_name": "f", "kwargs": false}`:  {Reason: "kwargs are a boolean, not an object", Name: "f"},
		strings.Repeat("[", 300):               {Reason: "too large"},
		`{"task_name": "` + strings.Repeat("f", 1<<10) + `"}`: {Reason: "too large"},
		`{"task_name": "f", "args": [1, 2, 3}`:                {Reason: "not JSON"},
		`{"task_name": "f"} {"task_name": "g"}`:               {Reason: "not JSON"},
	} {
		limits := protocol.DefaultLimits()
		limits.Body = 1 << 10
		_, err := rayserve.DecodeTask([]byte(text), limits)
		var malformed *rayserve.MalformedError
		require.ErrorAs(t, err, &malformed, "%.50q", text)
		require.Equal(t, want.Reason, malformed.Reason, "%.50q", text)
		require.Equal(t, want.ID, malformed.ID, "%.50q", text)
		require.Equal(t, want.Name, malformed.Name, "%.50q", text)
		require.ErrorContains(t, err, want.Reason)
		var limit *protocol.LimitError
		require.Equal(t, want.Reason == "too large", errors.As(err, &limit), "%.50q", text)
	}
}

// TestLongTexts: what a stranger writes beside the arguments goes into logs and records.
func TestLongTexts(t *testing.T) {
	id := strings.Repeat("i", 255)
	task, err := rayserve.DecodeTask([]byte(`{"task_id": "`+id+`", "task_name": "f", "created_at": "`+id+`"}`), protocol.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, &rayserve.Task{ID: id, Name: "f", Args: []any{}, Kwargs: map[string]any{}}, task, "no time is that long")
	_, err = rayserve.DecodeTask([]byte(`{"task_id": "i`+id+`", "task_name": "f"}`), protocol.DefaultLimits())
	require.EqualError(t, err, "rayserve: malformed message: task_id is 256 bytes long, at most 255 can be the name of a result's queue")
	require.Less(t, len(err.Error()), 200)
}

func TestValuesOfGo(t *testing.T) {
	type features struct {
		Name    string    `json:"name"`
		Weights []float32 `json:"weights"`
	}
	at := time.Date(2026, 11, 29, 12, 0, 0, 5000, time.FixedZone("", 3600))
	body, err := rayserve.EncodeTask(rayserve.Task{ID: "1", Name: "f", Args: []any{
		features{Name: "a", Weights: []float32{0.1}}, at, protocol.NaiveDateTime{Time: at.UTC()},
		protocol.Date{Year: 26, Month: 1, Day: 2}, protocol.TimeOfDay("03:04"), protocol.Decimal("1.10"), uuid.Nil,
	}, Kwargs: map[string]any{"at": []time.Time{at}, "inf": math.Inf(1), "n": uint64(math.MaxUint64)}})
	require.NoError(t, err)
	//nolint:testifylint // byte for byte, and Infinity is not JSON for it
	require.Equal(t, `{"task_id": "1", "task_name": "f", "args": [{"name": "a", "weights": [0.1]}, `+
		`"2026-11-29T12:00:00.000005+01:00", "2026-11-29T11:00:00.000005", "0026-01-02", "03:04", "1.10", `+
		`"00000000-0000-0000-0000-000000000000"], "kwargs": {"at": ["2026-11-29T12:00:00.000005+01:00"], `+
		`"inf": Infinity, "n": 18446744073709551615}, "created_at": ""}`, string(body))
}

func TestValuesThatHaveNoForm(t *testing.T) {
	type model struct {
		Weights []byte        `json:"weights"`
		Done    chan struct{} `json:"done,omitempty"`
	}
	for name, c := range map[string]struct {
		task rayserve.Task
		want []string
	}{
		"bytes":      {rayserve.Task{Args: []any{1, 2, model{Weights: []byte{1}}}}, []string{"args[2].weights", "[]uint8", "base64"}},
		"channel":    {rayserve.Task{Kwargs: map[string]any{"x": model{Done: make(chan struct{})}}}, []string{`kwargs["x"].`, "chan struct {}"}},
		"function":   {rayserve.Task{Args: []any{func() {}}}, []string{"args[0]", "func()", "pass booleans"}},
		"keys":       {rayserve.Task{Args: []any{map[float64]int{1: 1}}}, []string{"args[0]", "float64", "map key"}},
		"many digit": {rayserve.Task{Args: []any{new(big.Int).Lsh(big.NewInt(1), 1<<16)}}, []string{"args[0]", "4300 digits"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.task.Name = "f"
			_, err := rayserve.EncodeTask(c.task)
			var encode *protocol.EncodeError
			require.ErrorAs(t, err, &encode)
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
	_, err := rayserve.EncodeTask(rayserve.Task{})
	require.ErrorContains(t, err, "no name")
}

func FuzzDecodeTask(f *testing.F) {
	f.Add([]byte(fromPython))
	f.Add([]byte(`{"task_name": "f", "args": {}}`))
	f.Add([]byte("\xff"))
	limits := protocol.Limits{Body: 1 << 12, Depth: 20, Items: 1000}
	f.Fuzz(func(t *testing.T, body []byte) {
		task, err := rayserve.DecodeTask(body, limits)
		if err != nil {
			var malformed *rayserve.MalformedError
			require.ErrorAs(t, err, &malformed)
			return
		}
		// What was read can be written, and reads the same then.
		first, err := rayserve.EncodeTask(*task)
		require.NoError(t, err)
		wider := protocol.Limits{Body: 1 << 16, Depth: 20, Items: 1000}
		again, err := rayserve.DecodeTask(first, wider)
		require.NoError(t, err)
		second, err := rayserve.EncodeTask(*again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
		_, _ = rayserve.DecodeQuery(body, limits)
		_, _ = rayserve.DecodeResponse(body, limits)
		_, _ = rayserve.DecodeResult(body, limits)
		_, _ = rayserve.DecodeProgress(body, limits)
	})
}
