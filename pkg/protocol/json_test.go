package protocol

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestDecodeJSONValues(t *testing.T) {
	huge, _ := new(big.Int).SetString("18446744073709551616", 10)
	for in, want := range map[string]any{
		"9007199254740993":     int64(9007199254740993),
		"-9223372036854775808": int64(math.MinInt64),
		"18446744073709551616": huge,
		"1e400":                math.Inf(1),
		"-0":                   int64(0),
		"1.0":                  1.0,
		`"\ud83d\ude00"`:       "😀",
		`"\ud83d"`:             "\xed\xa0\xbd",
		`{"a": 1, "a": 2}`:     map[string]any{"a": int64(2)},
		`{"__type__": "datetime", "__value__": "2020-01-02T03:04:05+00:00"}`:             time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC),
		`{"__type__": "datetime", "__value__": "2020-01-02T03:04:05"}`:                   NaiveDateTime{time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)},
		`{"__type__": "date", "__value__": "2020-01-02"}`:                                Date{2020, 1, 2},
		`{"__type__": "time", "__value__": "03:04:05.678901+02:00"}`:                     TimeOfDay("03:04:05.678901+02:00"),
		`{"__type__": "decimal", "__value__": "1.10"}`:                                   Decimal("1.10"),
		`{"__type__": "base64", "__value__": "/wA="}`:                                    []byte{0xFF, 0},
		`{"__type__": "uuid", "__value__": {"hex": "11111111222243338444555555555555"}}`: uuid.MustParse("11111111-2222-4333-8444-555555555555"),
	} {
		got, err := DecodeJSON([]byte(in), DefaultLimits())
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	_, offset := mustDecode(t, `{"__type__": "datetime", "__value__": "2020-01-02T03:04:05-05:30"}`).(time.Time).Zone()
	require.Equal(t, -(5*3600 + 30*60), offset)
}

func mustDecode(t *testing.T, in string) any {
	t.Helper()
	v, err := DecodeJSON([]byte(in), DefaultLimits())
	require.NoError(t, err)
	return v
}

func TestEncodeJSONValues(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{math.Copysign(0, -1), "-0.0"}, {1e16, "1e+16"}, {123456789012345678.0, "1.2345678901234568e+17"}, {1e15, "1000000000000000.0"},
		{0.0001, "0.0001"}, {0.00001, "1e-05"}, {math.NaN(), "NaN"}, {math.Inf(-1), "-Infinity"}, {math.Inf(1), "Infinity"},
		{"é😀\x7f\u2028<>&", `"\u00e9\ud83d\ude00\u007f\u2028<>&"`}, {"\xff", `"\ufffd"`}, {"\xed\xa0\xbd", `"\ud83d"`},
		{[]any(nil), "[]"}, {map[string]any(nil), "{}"}, {(*big.Int)(nil), "null"}, {[]byte(nil), `{"__type__": "bytes", "__value__": ""}`},
		{map[string]any{"b": 1, "a": []string{"x"}}, `{"a": ["x"], "b": 1}`},
		{time.Date(2020, 1, 2, 3, 4, 5, 678901999, time.UTC), `{"__type__": "datetime", "__value__": "2020-01-02T03:04:05.678901+00:00"}`},
		{time.Date(1890, 1, 2, 3, 4, 5, 0, time.FixedZone("LMT", 3208)), `{"__type__": "datetime", "__value__": "1890-01-02T03:04:05+00:53:28"}`},
		{Signature{Task: "t"}, `{"args": [], "immutable": false, "kwargs": {}, "options": {}, "subtask_type": null, "task": "t"}`},
	} {
		require.Equal(t, c.want, fullRepr(c.in))
	}
}

func TestEncodeJSONRefuses(t *testing.T) {
	tooLong := new(big.Int).Exp(big.NewInt(10), big.NewInt(maxIntDigits), nil)
	for name, in := range map[string]any{
		"long integer":     tooLong,
		"very long":        new(big.Int).Lsh(big.NewInt(1), 1<<20),
		"long negative":    new(big.Int).Neg(tooLong),
		"year 10000":       time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"year 0":           NaiveDateTime{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
		"date in year 0":   Date{0, 1, 1},
		"offset of a day":  time.Date(2020, 1, 1, 0, 0, 0, 0, time.FixedZone("", 24*3600)),
		"chan":             make(chan int),
		"chan in a struct": struct{ C chan int }{make(chan int)},
	} {
		for _, v := range []any{in, []any{in}, map[string]any{"k": in}} {
			_, err := EncodeJSON(v)
			var encodeError *EncodeError
			require.ErrorAs(t, err, &encodeError, name)
		}
	}
	_, err := EncodeJSON(map[string]any{"items": []any{1, func() {}}})
	require.ErrorContains(t, err, "can't encode .items[1]: type func() has no form on the wire")
}

func TestDecodeLimits(t *testing.T) {
	nest := func(n int, open, inner, closing string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
	}
	limits := Limits{Envelope: 1 << 20, Body: 1 << 20, Depth: 10, Items: 100}
	many := "[" + strings.Repeat("1,", 98) + "1]"
	for name, c := range map[string]struct {
		decode   func([]byte, Limits) (any, error)
		fits, no string
	}{
		"json depth of lists":   {DecodeJSON, nest(10, "[", "", "]"), nest(11, "[", "", "]")},
		"json depth of objects": {DecodeJSON, nest(10, `{"a":`, "1", "}"), nest(11, `{"a":`, "1", "}")},
		"json values":           {DecodeJSON, many, "[" + many + "]"},
		"json maps":             {DecodeJSON, "[" + strings.Repeat("{},", 10) + "1]", "[" + strings.Repeat("{},", 11) + "1]"},
		"msgpack maps":          {decodeMsgpack, "\x9b" + strings.Repeat("\x80", 11), "\x9c" + strings.Repeat("\x80", 12)},
		"msgpack depth":         {decodeMsgpack, nest(10, "\x91", "\x01", ""), nest(11, "\x91", "\x01", "")},
		"msgpack depth of maps": {decodeMsgpack, nest(10, "\x81\xa1a", "\x01", ""), nest(11, "\x81\xa1a", "\x01", "")},
		"msgpack values":        {decodeMsgpack, "\xdc\x00\x63" + strings.Repeat("\x01", 99), "\xdc\x00\x64" + strings.Repeat("\x01", 100)},
	} {
		_, err := c.decode([]byte(c.fits), limits)
		require.NoError(t, err, name)
		_, err = c.decode([]byte(c.no), limits)
		var decodeError *DecodeError
		var limit *LimitError
		require.ErrorAs(t, err, &decodeError, name)
		require.ErrorAs(t, err, &limit, name)
	}
	deep := []byte(strings.Repeat("[", 1_000_000))
	for _, decode := range []func([]byte, Limits) (any, error){DecodeJSON, decodeYAML, decodeMsgpack} {
		_, err := decode(deep, DefaultLimits())
		require.Error(t, err)
	}
}

// TestExactRoundTrip sends every wire value through every serializer that has a
// form for it.
func TestExactRoundTrip(t *testing.T) {
	zone := time.FixedZone("", -8*3600)
	everywhere := []any{
		nil, true, false, int64(1<<53 + 1), int64(math.MinInt64), int64(math.MaxInt64), new(big.Int).SetUint64(math.MaxUint64),
		0.1, math.Copysign(0, -1), 1e300, 5e-324, 1e16, math.Inf(1), math.Inf(-1), math.NaN(), "", "text", "é世界😀", "yes", "1", "null", "2020-01-02", "=", "~",
		"a\nb\t\x00\x7f\u0085\u2028\ufeff'\"\\", strings.Repeat("long ", 500), []byte{}, []byte("text"), []byte{0xFF, 0}, []any{}, map[string]any{},
		map[string]any{"": int64(1), "yes": []any{nil}, "<<": "merge", "=": "value", strings.Repeat("k", 2000): 1.5},
	}
	notMsgpack := []any{
		time.Date(2020, 1, 2, 3, 4, 5, 678901000, time.UTC), time.Date(2020, 1, 2, 3, 4, 5, 0, zone),
		NaiveDateTime{time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}, Date{1, 1, 1}, Date{9999, 12, 31},
		new(big.Int).Lsh(big.NewInt(1), 100),
	}
	jsonOnly := []any{
		TimeOfDay("03:04:05"), Decimal("1.10"), Decimal("NaN"), uuid.MustParse("11111111-2222-4333-8444-555555555555"), "\xed\xa0\xbd",
	}
	for serializer, values := range map[string][]any{
		"json":    append(append(append([]any{}, everywhere...), notMsgpack...), jsonOnly...),
		"yaml":    append(append([]any{}, everywhere...), notMsgpack...),
		"msgpack": everywhere,
	} {
		for _, v := range append(values, values) {
			body, contentType, contentEncoding, err := Serialize(serializer, v)
			require.NoError(t, err, "%s of %v", serializer, v)
			got, err := Deserialize(body, contentType, contentEncoding, acceptAll(t), DefaultLimits())
			require.NoError(t, err, "%s of %s", serializer, body)
			requireSame(t, v, got)
		}
	}
	for serializer, values := range map[string][]any{"yaml": jsonOnly[:4], "msgpack": append(notMsgpack, jsonOnly[:4]...)} {
		for _, v := range values {
			_, _, _, err := Serialize(serializer, []any{v})
			var encodeError *EncodeError
			require.ErrorAs(t, err, &encodeError, "%s of %v", serializer, v)
			require.Equal(t, "[0]", encodeError.Path)
		}
	}
}

// TestMsgpackLengths covers the 16 and 32 bit lengths, and lengths that claim
// more than there is.
func TestMsgpackLengths(t *testing.T) {
	items := make([]any, 70_000)
	m := make(map[string]any, len(items))
	for i := range items {
		items[i] = int64(i % 100)
		m[strconv.Itoa(i)] = int64(i % 100)
	}
	for _, v := range []any{items, m, strings.Repeat("x", 70_000), []byte(strings.Repeat("x", 70_000)), items[:300]} {
		data, err := encodeMsgpack(v)
		require.NoError(t, err)
		got, err := decodeMsgpack(data, DefaultLimits())
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	for _, claim := range []string{"\xdb\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff", "\xdd\x7f\xff\xff\xff"} {
		require.Less(t, testing.AllocsPerRun(10, func() {
			_, err := decodeMsgpack([]byte(claim), DefaultLimits())
			require.Error(t, err)
		}), 100.0)
	}
}

// TestYAMLLimits: the parser makes all nodes before the first is counted, so that
// what may become one is counted first.
func TestYAMLLimits(t *testing.T) {
	limits := Limits{Depth: 10, Items: 1000}
	for fits, refused := range map[string]string{
		strings.Repeat("[", 8) + strings.Repeat("]", 8): strings.Repeat("[", 11) + strings.Repeat("]", 11),
		strings.Repeat("- 1\n", 49):                     strings.Repeat("- 1\n", 50),
		"[" + strings.Repeat("1,", 98) + "]":            "[" + strings.Repeat("1,", 99) + "]",
	} {
		_, err := decodeYAML([]byte(fits), limits)
		require.NoError(t, err, fits)
		_, err = decodeYAML([]byte(refused), limits)
		requireTooLong(t, err)
	}
}

// TestYAMLBombs bounds what aliases make of a small document.
func TestYAMLBombs(t *testing.T) {
	var aliases, merges strings.Builder
	aliases.WriteString("a0: &a0 [a, b, c, d, e, f, g, h, i]\n")
	merges.WriteString("m0: &m0 {k: 1}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
		fmt.Fprintf(&merges, "m%d: &m%d {<<: [%s*m%d]}\n", i, i, strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 8), i-1)
	}
	for name, document := range map[string]string{
		"aliases": aliases.String(), "merges": merges.String(), "itself": "&a [*a]", "merges itself": "&a {<<: *a}", "key is itself": "&a {*a : 1}",
	} {
		start := time.Now()
		_, err := decodeYAML([]byte(document), DefaultLimits())
		var limit *LimitError
		require.ErrorAs(t, err, &limit, name)
		require.Less(t, time.Since(start), 5*time.Second, name)
	}
	// An ordinary use of aliases is far below the bound.
	v, err := decodeYAML([]byte("- &x {a: 1, b: [1, 2]}\n- *x\n- *x\n- <<: *x\n  a: 2\n"), DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": int64(2), "b": []any{int64(1), int64(2)}}, list(t, v)[3])
}

func TestPlainJSONHasNoTypes(t *testing.T) {
	const text = `{"a": {"__type__": "bytes", "__value__": "x"}, "b": {"__type__": "no such", "__value__": NaN}, "n": 12345678901234567890}`
	_, err := DecodeJSON([]byte(text), DefaultLimits())
	require.ErrorContains(t, err, "no such")
	v, err := DecodePlainJSON([]byte(text), DefaultLimits())
	require.NoError(t, err)
	again, err := EncodeJSON(v)
	require.NoError(t, err)
	require.Equal(t, text, string(again)) //nolint:testifylint // byte for byte, and NaN is not JSON for it
}

// TestLiteral compares it with one byte after the other, at every distance from the
// ends of its words, before bytes of which each kind of bit is set.
func TestLiteral(t *testing.T) {
	t.Parallel()
	special := func(c byte) bool { return c == '"' || c == '\\' || c < 0x20 }
	for _, filler := range []byte{' ', '#', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
		for length := range 20 {
			data := bytes.Repeat([]byte{filler}, length)
			require.Equal(t, length, literal(data))
			for at := range data {
				for c := range 256 {
					data[at] = byte(c)
					want := length
					if special(byte(c)) {
						want = at
					}
					if got := literal(data); got != want {
						t.Fatalf("%x: %d, not %d", data, got, want)
					}
				}
				data[at] = filler
			}
		}
	}
}

// TestLargeAndSmallDocuments: strings don't depend on how they are kept.
func TestLargeAndSmallDocuments(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, maxWhole, maxWhole + 1} {
		data := []byte(`{"a": ["b", "c\n"], "d": "` + strings.Repeat("x", size) + `", "e": {}, "a": [], "f": [[1], [2, [3]]]}`)
		got, err := DecodeJSON(data, DefaultLimits())
		require.NoError(t, err)
		clear(data)
		require.Equal(t, map[string]any{
			"a": []any{}, "d": strings.Repeat("x", size), "e": map[string]any{},
			"f": []any{[]any{int64(1)}, []any{int64(2), []any{int64(3)}}},
		}, got)
	}
}
