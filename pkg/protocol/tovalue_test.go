package protocol

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

type (
	color string
	level int8
	inner struct{ A, Hidden int }
	shape struct {
		inner
		*deep
		Name    string    `celery:"shape_name,omitempty"`
		JSON    int       `json:"js,omitempty"`
		Both    int       `celery:"by_celery" json:"by_json"`
		Skipped int       `celery:"-"`
		Hidden  string    // hides inner.Hidden
		When    time.Time `json:"when,omitempty"`
		private int
	}
	deep    struct{ Deep []int }
	pointer struct{ P *int }
	loop    struct{ Next *loop }
)

func TestToValue(t *testing.T) {
	seven := 7
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	now := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	huge, _ := new(big.Int).SetString("18446744073709551616", 10)
	apdNumber, _, err := apd.NewFromString("1.10")
	require.NoError(t, err)
	for name, c := range map[string]struct{ in, want any }{
		"nil":              {nil, nil},
		"nil pointer":      {(*int)(nil), nil},
		"nil slice":        {[]string(nil), []any{}},
		"nil map":          {map[string]int(nil), map[string]any{}},
		"pointer":          {&seven, int64(7)},
		"pointer to it":    {func() any { p := &seven; return &p }(), int64(7)},
		"named string":     {color("red"), "red"},
		"int8":             {level(-3), int64(-3)},
		"uint8":            {uint8(200), int64(200)},
		"uint64 small":     {uint64(5), int64(5)},
		"uint64 large":     {uint64(math.MaxUint64), new(big.Int).SetUint64(math.MaxUint64)},
		"big small":        {big.NewInt(5), int64(5)},
		"big large":        {*huge, huge},
		"nil big":          {(*big.Int)(nil), nil},
		"float32":          {float32(0.1), 0.1},
		"duration":         {1500 * time.Millisecond, 1.5},
		"time":             {&now, now},
		"naive":            {&NaiveDateTime{now}, NaiveDateTime{now}},
		"date":             {&Date{2020, 1, 2}, Date{2020, 1, 2}},
		"uuid":             {&id, id},
		"bytes":            {json.RawMessage(nil), nil},
		"byte array":       {[2]byte{1, 2}, []byte{1, 2}},
		"array":            {[2]int{1, 2}, []any{int64(1), int64(2)}},
		"list":             {[]any{1, []string{"a"}}, []any{int64(1), []any{"a"}}},
		"map":              {map[color]any{"red": level(1)}, map[string]any{"red": int64(1)}},
		"map of int":       {map[int]bool{-1: true}, map[string]any{"-1": true}},
		"map of uint":      {map[uint]bool{1: true}, map[string]any{"1": true}},
		"json number":      {json.Number("12"), int64(12)},
		"json float":       {json.Number("1.5"), 1.5},
		"json number huge": {json.Number("18446744073709551616"), huge},
		"raw json":         {json.RawMessage(`{"a": [1]}`), map[string]any{"a": []any{int64(1)}}},
		"text marshaler":   {netip.MustParseAddr("10.0.0.1"), "10.0.0.1"},
		"big float":        {big.NewFloat(1.5), "1.5"},
		"error":            {errors.New("broken"), "broken"},
		"decimal":          {decimal.RequireFromString("1.10"), Decimal("1.10")},
		"decimal pointer":  {func() any { d := decimal.RequireFromString("-0.05"); return &d }(), Decimal("-0.05")},
		"apd":              {apdNumber, Decimal("1.10")},
		"apd value":        {*apdNumber, Decimal("1.10")},
		"signature":        {Signature{Task: "t"}, Signature{Task: "t"}.Value()},
		"exception":        {&Exception{Type: "E"}, map[string]any{"exc_type": "E", "exc_message": []any{}, "exc_module": nil}},
		"struct pointer":   {pointer{}, map[string]any{"p": nil}},
		"wire values":      {[]any{id, now, Decimal("1"), TimeOfDay("03:04"), []byte("x")}, []any{id, now, Decimal("1"), TimeOfDay("03:04"), []byte("x")}},
	} {
		got, err := ToValue(c.in)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestToValueStruct(t *testing.T) {
	got, err := ToValue(shape{inner: inner{A: 1, Hidden: 2}, Both: 3, Skipped: 4, Hidden: "outer", private: 5})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": int64(1), "hidden": "outer", "by_celery": int64(3)}, got)

	now := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	got, err = ToValue(&shape{Name: "n", JSON: 1, When: now, deep: &deep{Deep: []int{1}}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": int64(0), "hidden": "", "by_celery": int64(0), "shape_name": "n", "js": int64(1), "when": now, "deep": []any{int64(1)},
	}, got)

	// An embedded type that is a value keeps its name. Two of them hide each
	// other's methods, by which the whole would be a value otherwise.
	got, err = ToValue(struct {
		time.Time
		big.Int
		Date
		*inner
	}{Time: now, Date: Date{2020, 1, 2}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"time": now, "int": int64(0), "date": Date{2020, 1, 2}}, got)
}

func TestToValueRefuses(t *testing.T) {
	endless := map[string]any{}
	endless["self"] = []any{endless}
	ring := &loop{}
	ring.Next = ring
	for name, c := range map[string]struct {
		in   any
		path string
	}{
		"chan":         {make(chan int), ""},
		"func":         {[]any{1, func() {}}, "[1]"},
		"complex":      {map[string]any{"z": complex(1, 1)}, ".z"},
		"field":        {struct{ F []any }{[]any{nil, make(chan int)}}, ".f[1]"},
		"key":          {map[float64]int{1: 1}, ""},
		"json number":  {json.Number("x"), ""},
		"raw json":     {json.RawMessage("{"), ""},
		"in map":       {map[string]func(){"f": func() {}}, ".f"},
		"nil in chans": {[]func(){func() {}}, "[0]"},
	} {
		_, err := ToValue(c.in)
		var encodeError *EncodeError
		require.ErrorAs(t, err, &encodeError, name)
		require.Equal(t, c.path, encodeError.Path, name)
	}
	for _, cyclic := range []any{endless, ring} {
		_, err := ToValue(cyclic)
		var limit *LimitError
		require.ErrorAs(t, err, &limit)
		for _, serializer := range []string{"json", "yaml", "msgpack"} {
			_, _, _, err := Serialize(serializer, cyclic)
			require.ErrorAs(t, err, &limit)
		}
	}
}

func TestDecimalOf(t *testing.T) {
	for _, c := range []struct {
		coefficient int64
		exponent    int
		want        Decimal
	}{
		{110, -2, "1.10"}, {-5, -2, "-0.05"}, {0, -2, "0.00"}, {1, 0, "1"}, {1, 2, "1E+2"}, {12, 2, "1.2E+3"},
		{1, -7, "1E-7"}, {123, -9, "1.23E-7"}, {1, -6, "0.000001"}, {-123, -1, "-12.3"},
	} {
		require.Equal(t, c.want, decimalOf(big.NewInt(c.coefficient), c.exponent))
	}
	for _, bad := range []string{"", ".", "1e", "e5", "0x1", "1.2.3", "one", "--1", "1 2"} {
		_, err := ParseDecimal(bad)
		require.Error(t, err, bad)
	}
	for in, want := range map[string]Decimal{"\t1_0.50\n": "10.50", "-.5": "-.5", "5.": "5.", "sNaN12": "sNaN12", "-Infinity": "-Infinity"} {
		got, err := ParseDecimal(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
