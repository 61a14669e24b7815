package tasks_test

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// TestDeterministicIDGolden: the ids were made by the Python function of
// docs/idempotency.md and must never change. Each line of the file is a call as JSON
// and its id.
func TestDeterministicIDGolden(t *testing.T) {
	file, err := os.ReadFile("testdata/deterministic_ids.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	require.Greater(t, len(lines), 20)
	for _, line := range lines {
		id, text, _ := strings.Cut(line, " ")
		decoded, err := protocol.DecodeJSON([]byte(text), protocol.DefaultLimits())
		require.NoError(t, err, text)
		call := decoded.([]any)
		got, err := tasks.DeterministicID(call[0].(string), call[1:]...)
		require.NoError(t, err, text)
		require.Equal(t, id, got, text)
	}
}

func TestDeterministicIDOfGoValues(t *testing.T) {
	type address struct {
		Street string `celery:"street"`
		Number int    `celery:"no"`
	}
	type order string
	id := func(args ...any) string {
		t.Helper()
		made, err := tasks.DeterministicID("shop.charge", args...)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(5), uuid.MustParse(made).Version())
		return made
	}
	require.Equal(t, id("A1", 7), id(order("A1"), uint8(7)))
	require.Equal(t, id(map[string]any{"street": "x", "no": 1}), id(address{"x", 1}))
	require.Equal(t, id([]string{"a"}), id([]any{"a"}))
	require.Equal(t, id(5), id(big.NewInt(5)))
	require.Equal(t, id(90.0), id(90*time.Second))
	require.NotEqual(t, id(5), id(5.0))
	require.NotEqual(t, id(5), id("5"))
	require.NotEqual(t, id(), id(nil))
	require.NotEqual(t, id("a", "b"), id([]any{"a", "b"}))
	require.NotEqual(t, id("a"), id(json.Number("1")))
}

func TestDeterministicIDRefuses(t *testing.T) {
	for _, c := range []struct {
		arg  any
		want string
	}{
		{time.Unix(0, 0), "argument 1: a time.Time has no form in JSON: use its text"},
		{decimal.New(1, 0), "a protocol.Decimal has no form"},
		{[]byte("x"), "a []uint8 has no form"},
		{uuid.Nil, "a uuid.UUID has no form"},
		{math.NaN(), "NaN has no form"},
		{math.Inf(-1), "-Inf has no form"},
		{"\xff", `"\xff" is not UTF-8`},
		{map[string]any{"a": []any{1, "\xff"}}, `["a"]: [1]: "\xff" is not UTF-8`},
		{map[string]any{"\xff": 1}, "is not UTF-8"},
		{make(chan int), "chan int"},
		{new(big.Int).Exp(big.NewInt(10), big.NewInt(5000), nil), "digits of an integer"},
	} {
		id, err := tasks.DeterministicID("shop.charge", 1, c.arg)
		require.ErrorContains(t, err, "tasks: deterministic id of shop.charge: ")
		require.ErrorContains(t, err, c.want)
		require.Empty(t, id)
	}
	_, err := tasks.DeterministicID("")
	require.ErrorContains(t, err, "name is empty")
}

// FuzzDeterministicID: whatever it takes has one id, also after a way through JSON.
func FuzzDeterministicID(f *testing.F) {
	for _, seed := range []string{`[1, 2.5, "é", null]`, `{"b": 1, "a": [true]}`, `1e400`, `"\ud800"`, `123456789012345678901234567890`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := protocol.DecodeJSON(text, protocol.DefaultLimits())
		if err != nil {
			return
		}
		first, err := tasks.DeterministicID("t", v)
		if err != nil {
			return
		}
		again, err := protocol.EncodeJSON(v)
		require.NoError(t, err)
		w, err := protocol.DecodeJSON(again, protocol.DefaultLimits())
		require.NoError(t, err)
		second, err := tasks.DeterministicID("t", w)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}
