package binding_test

import (
	"errors"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// arg binds one value to a parameter x of type T.
func arg[T any](t *testing.T, value any) (T, error) {
	t.Helper()
	in, err := bind[struct{ X T }](t, nil, map[string]any{"x": value})
	return in.X, err
}

func fits[T any](t *testing.T, value any, want T) {
	t.Helper()
	got, err := arg[T](t, value)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// refuses checks the text after "call() argument 'x'".
func refuses[T any](t *testing.T, value any, text string) {
	t.Helper()
	_, err := arg[T](t, value)
	requireTypeError(t, err, "call() argument 'x"+text)
}

func bigInt(t *testing.T, text string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 10)
	require.True(t, ok)
	return n
}

func TestIntegers(t *testing.T) {
	fits[int8](t, int64(-128), -128)
	fits[int64](t, int64(1<<53+1), 1<<53+1)
	fits[int64](t, int64(math.MinInt64), math.MinInt64)
	fits[uint64](t, bigInt(t, "18446744073709551615"), math.MaxUint64)
	fits[uint8](t, int64(255), 255)
	fits[int](t, 2.0, 2)
	fits[int](t, math.Copysign(0, -1), 0)
	fits[uint16](t, 65535.0, 65535)

	refuses[int8](t, int64(128), "': 128 is out of range for int8 (-128 to 127)")
	refuses[uint8](t, int64(-1), "': -1 is out of range for uint8 (0 to 255)")
	refuses[int64](t, bigInt(t, "9223372036854775808"),
		"': 9223372036854775808 is out of range for int64 (-9223372036854775808 to 9223372036854775807)")
	refuses[uint64](t, bigInt(t, "18446744073709551616"),
		"': 18446744073709551616 is out of range for uint64 (0 to 18446744073709551615)")
	refuses[uint64](t, bigInt(t, "-9223372036854775809"),
		"': -9223372036854775809 is out of range for uint64 (0 to 18446744073709551615)")
	refuses[int](t, new(big.Int).Lsh(big.NewInt(1), 40_000),
		"': an integer of 40001 bits is out of range for int (-9223372036854775808 to 9223372036854775807)")
	refuses[int](t, 2.5, "': 2.5 is not an integer")
	refuses[int](t, math.NaN(), "': nan is not an integer")
	refuses[uint](t, -2.5, "': -2.5 is not an integer")
	refuses[int64](t, 9223372036854775808.0,
		"': 9.223372036854776e+18 is out of range for int64 (-9223372036854775808 to 9223372036854775807)")
	refuses[int64](t, math.Inf(-1),
		"': -inf is out of range for int64 (-9223372036854775808 to 9223372036854775807)")
	refuses[uint8](t, 256.0, "': 256.0 is out of range for uint8 (0 to 255)")
	refuses[int](t, "7", "' must be int, not str")
	refuses[int](t, true, "' must be int, not bool")
	refuses[int](t, nil, "' must be int, not NoneType")
	refuses[uint](t, protocol.Decimal("7"), "' must be int, not Decimal")
}

func TestBigIntegers(t *testing.T) {
	huge := "123456789012345678901234567890"
	fits(t, bigInt(t, huge), bigInt(t, huge))
	fits(t, bigInt(t, huge), *bigInt(t, huge))
	fits(t, int64(7), big.NewInt(7))
	fits(t, 1e22, bigInt(t, "10000000000000000000000"))
	refuses[*big.Int](t, 0.5, "': 0.5 is not an integer")
	refuses[*big.Int](t, math.Inf(1), "': inf is not an integer")
	refuses[big.Int](t, "7", "' must be int, not str")

	// The handler owns what it gets.
	original := bigInt(t, huge)
	got, err := arg[*big.Int](t, original)
	require.NoError(t, err)
	got.SetInt64(1)
	require.Equal(t, huge, original.String())
}

func TestFloats(t *testing.T) {
	fits[float64](t, 0.1, 0.1)
	fits[float64](t, math.Inf(1), math.Inf(1))
	fits[float64](t, int64(1<<53), 1<<53)
	fits[float64](t, int64(math.MinInt64), math.MinInt64)
	fits[float64](t, new(big.Int).Lsh(big.NewInt(1), 80), math.Ldexp(1, 80))
	fits[float32](t, 0.1, float32(0.1))
	fits[float32](t, int64(1<<24), 1<<24)

	refuses[float64](t, int64(1<<53+1), "': 9007199254740993 can't be held exactly by float64")
	refuses[float64](t, int64(math.MaxInt64), "': 9223372036854775807 can't be held exactly by float64")
	refuses[float64](t, new(big.Int).Lsh(big.NewInt(1), 1024), "': an integer of 1025 bits can't be held exactly by float64")
	refuses[float32](t, int64(1<<24+1), "': 16777217 can't be held exactly by float32")
	refuses[float32](t, 1e300, "': 1e+300 is out of range for float32 (up to 3.4028234663852886e+38)")
	refuses[float64](t, "0.1", "' must be float, not str")
	refuses[float64](t, protocol.Decimal("0.1"), "' must be float, not Decimal")
}

func TestScalars(t *testing.T) {
	type color string
	fits[bool](t, true, true)
	fits[string](t, "é", "é")
	fits[string](t, []byte("é"), "é")
	fits[color](t, "red", "red")
	fits[[]byte](t, []byte{0xff, 0}, []byte{0xff, 0})
	fits[[]byte](t, "é", []byte("é"))
	fits[[]byte](t, nil, nil)
	fits[any](t, int64(7), any(int64(7)))
	fits[any](t, nil, nil)

	refuses[bool](t, int64(1), "' must be bool, not int")
	refuses[string](t, []byte{0xff}, "': the bytes are not UTF-8 text")
	refuses[string](t, nil, "' must be str, not NoneType")
	refuses[string](t, []any{}, "' must be str, not list")
	refuses[[]byte](t, []any{int64(1)}, "' must be bytes, not list")
}

func TestBytesAreCopied(t *testing.T) {
	original := []byte("abc")
	got, err := arg[[]byte](t, original)
	require.NoError(t, err)
	got[0] = 'x'
	require.Equal(t, "abc", string(original))
}

func TestTimes(t *testing.T) {
	paris := time.FixedZone("", 3600)
	aware := time.Date(2020, 1, 2, 3, 4, 5, 678901000, paris)
	naive := protocol.NaiveDateTime{Time: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}
	fits[time.Time](t, aware, aware)
	fits[time.Time](t, naive, naive.Time)
	fits[time.Time](t, protocol.Date{Year: 2020, Month: 1, Day: 2}, time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, text := range []string{"2020-01-02T03:04:05Z", "2020-01-02T03:04:05", "2020-01-02 03:04:05", "2020-01-02T03:04:05+00:00"} {
		got, err := arg[time.Time](t, text)
		require.NoError(t, err, text)
		require.True(t, got.Equal(naive.Time), text)
	}
	got, err := arg[time.Time](t, "2020-01-02T03:04:05.678901+01:00")
	require.NoError(t, err)
	require.True(t, got.Equal(aware))
	got, err = arg[time.Time](t, "1900-01-01T00:00:00+00:09:21")
	require.NoError(t, err)
	require.Equal(t, time.Date(1899, 12, 31, 23, 50, 39, 0, time.UTC), got.UTC())
	fits[time.Time](t, "2020-01-02T00:00:00", time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC))

	fits[protocol.NaiveDateTime](t, naive, naive)
	fits[protocol.NaiveDateTime](t, "2020-01-02T03:04:05", naive)
	fits[protocol.Date](t, protocol.Date{Year: 2020, Month: 1, Day: 2}, protocol.Date{Year: 2020, Month: 1, Day: 2})
	fits[protocol.Date](t, "2020-01-02", protocol.Date{Year: 2020, Month: 1, Day: 2})
	fits[protocol.Date](t, "2020-01-02T00:00:00", protocol.Date{Year: 2020, Month: 1, Day: 2})
	fits[protocol.TimeOfDay](t, protocol.TimeOfDay("03:04:05"), protocol.TimeOfDay("03:04:05"))
	fits[protocol.TimeOfDay](t, "03:04:05.678901+02:00", protocol.TimeOfDay("03:04:05.678901+02:00"))

	refuses[time.Time](t, "tomorrow", `': "tomorrow" is not an ISO 8601 datetime`)
	refuses[time.Time](t, int64(1577934245), "' must be datetime, not int")
	refuses[protocol.NaiveDateTime](t, aware, "': the datetime has a time zone")
	refuses[protocol.NaiveDateTime](t, "2020-01-02T03:04:05Z", `': "2020-01-02T03:04:05Z" is not an ISO 8601 datetime without a time zone`)
	refuses[protocol.NaiveDateTime](t, nil, "' must be datetime, not NoneType")
	refuses[protocol.Date](t, aware, "' must be date, not datetime")
	refuses[protocol.Date](t, "2020-02-30", `': "2020-02-30" is not an ISO 8601 date`)
	refuses[protocol.TimeOfDay](t, "25:00", `': "25:00" is not an ISO 8601 time`)
	refuses[protocol.TimeOfDay](t, int64(1), "' must be time, not int")
}

func TestDurations(t *testing.T) {
	fits[time.Duration](t, int64(90), 90*time.Second)
	fits[time.Duration](t, 0.1, 100*time.Millisecond)
	fits[time.Duration](t, -1.5, -1500*time.Millisecond)
	refuses[time.Duration](t, int64(math.MaxInt64), "': 9223372036854775807 s is longer than a duration can be (9223372036 s)")
	refuses[time.Duration](t, 1e10, "': 10000000000.0 s is longer than a duration can be (9223372036 s)")
	refuses[time.Duration](t, math.NaN(), "': nan s is longer than a duration can be (9223372036 s)")
	refuses[time.Duration](t, "90", "' must be a number of seconds, not str")

	type in struct {
		A time.Duration `celery:"a,default=1m30s"`
		B time.Duration `celery:"b,default=2.5"`
	}
	got, err := bind[in](t, nil, nil)
	require.NoError(t, err)
	require.Equal(t, in{A: 90 * time.Second, B: 2500 * time.Millisecond}, got)
}

func TestDecimals(t *testing.T) {
	fits[protocol.Decimal](t, protocol.Decimal("1.10"), "1.10")
	fits[protocol.Decimal](t, "1.10", "1.10")
	fits[protocol.Decimal](t, int64(-3), "-3")
	for _, text := range []string{"0", "-0.00", "1E+3", "1.5e-7", "NaN", "sNaN12", "-Infinity"} {
		fits[protocol.Decimal](t, text, protocol.Decimal(text))
	}
	fits[protocol.Decimal](t, " 1_000 ", "1000") // as Python's Decimal() reads it
	refuses[protocol.Decimal](t, 1.1, "' must be Decimal, not float")
	refuses[protocol.Decimal](t, "ten", `': "ten" is not a Decimal`)

	for value, want := range map[any]string{
		protocol.Decimal("1.10"):                           "1.1",
		protocol.Decimal("0.1000000000000000055511151231"): "0.1000000000000000055511151231",
		"1e-7":               "0.0000001",
		int64(math.MaxInt64): "9223372036854775807",
		bigInt(t, "123456789012345678901234567890"): "123456789012345678901234567890",
	} {
		got, err := arg[decimal.Decimal](t, value)
		require.NoError(t, err)
		require.Equal(t, want, got.String())
	}
	refuses[decimal.Decimal](t, 1.1, "' must be decimal.Decimal, not float")
	_, err := arg[decimal.Decimal](t, "ten")
	require.ErrorContains(t, err, `argument 'x': "ten" is not a decimal.Decimal: `)
	require.Error(t, errors.Unwrap(err))
}

// level is an enum with names over a number.
type level int8

func (l *level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return errors.New("no such level")
	}
	return nil
}

func TestTextTypes(t *testing.T) {
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	fits[uuid.UUID](t, id, id)
	fits[uuid.UUID](t, "11111111-2222-4333-8444-555555555555", id)
	fits[uuid.UUID](t, "11111111222243338444555555555555", id)
	refuses[uuid.UUID](t, "1111", `': "1111" is not a UUID`)
	refuses[uuid.UUID](t, int64(1), "' must be UUID, not int")

	fits[netip.Addr](t, "10.0.0.1", netip.MustParseAddr("10.0.0.1"))
	refuses[netip.Addr](t, true, "' must be netip.Addr, not bool")
	fits[level](t, "high", 2)
	fits[level](t, int64(1), 1)
	refuses[level](t, "medium", `': "medium" is not a binding_test.level: no such level`)

	fits[textual](t, protocol.Date{Year: 2020, Month: 1, Day: 2}, textual{"2020-01-02"})
	fits[textual](t, protocol.TimeOfDay("03:04"), textual{"03:04"})
	fits[textual](t, id, textual{id.String()})
	fits[textual](t, time.Date(2020, 1, 2, 3, 4, 5, 500_000_000, time.UTC), textual{"2020-01-02T03:04:05.500000+00:00"})
	fits[textual](t, protocol.NaiveDateTime{Time: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}, textual{"2020-01-02T03:04:05"})
	fits[named](t, int64(5), "<5>")
}

// textual keeps the text it was given.
type textual struct{ text string }

func (v *textual) UnmarshalText(text []byte) error {
	v.text = string(text)
	return nil
}

// named is a string type with a form of its own.
type named string

func (n *named) UnmarshalText(text []byte) error {
	*n = named("<" + string(text) + ">")
	return nil
}

func TestComposites(t *testing.T) {
	type item struct {
		SKU      string `json:"sku"`
		Price    decimal.Decimal
		Quantity int `celery:"quantity,default=1"`
		Note     *string
	}
	fits[[]int](t, []any{int64(1), int64(2)}, []int{1, 2})
	fits[[]int](t, []any{}, []int{})
	fits[[]int](t, nil, nil)
	fits[[2]int](t, []any{int64(1), int64(2)}, [2]int{1, 2})
	fits[map[string]bool](t, map[string]any{"a": true}, map[string]bool{"a": true})
	fits[map[string]bool](t, nil, nil)
	fits[map[int]string](t, map[string]any{"-7": "x"}, map[int]string{-7: "x"})
	fits[map[uint64]string](t, map[string]any{"18446744073709551615": "x"}, map[uint64]string{math.MaxUint64: "x"})
	fits[map[uuid.UUID]int](t, map[string]any{uuid.Nil.String(): int64(1)}, map[uuid.UUID]int{uuid.Nil: 1})
	fits[[]any](t, []any{nil, "a"}, []any{nil, "a"})
	fits[map[string]any](t, map[string]any{"a": nil}, map[string]any{"a": nil})
	seven := 7
	fits[*int](t, int64(7), &seven)
	fits[*int](t, nil, nil)
	fits[[]item](t, []any{
		map[string]any{"sku": "a", "price": "1.50", "unknown": true},
		map[string]any{"sku": "b", "Price": int64(2), "quantity": int64(3), "note": nil},
	}, []item{
		{SKU: "a", Price: decimal.RequireFromString("1.50"), Quantity: 1},
		{SKU: "b", Price: decimal.NewFromInt(2), Quantity: 3},
	})

	refuses[[]int](t, "12", "' must be list, not str")
	refuses[[2]int](t, []any{int64(1)}, "': the list has 1 items, 2 are needed")
	refuses[[2]int](t, nil, "' must be list, not NoneType")
	refuses[map[string]int](t, []any{}, "' must be dict, not list")
	refuses[map[int]string](t, map[string]any{"x": ""}, `["x"]': "x" is not an int`)
	refuses[map[int8]string](t, map[string]any{"200": ""}, `["200"]': 200 is out of range for int8 (-128 to 127)`)
	refuses[item](t, nil, "' must be dict, not NoneType")
	refuses[[]item](t, []any{map[string]any{}, map[string]any{"quantity": "two"}}, "[1].quantity' must be int, not str")
	refuses[map[string][]int](t, map[string]any{"k": []any{int64(1), 1.5}}, `["k"][1]': 1.5 is not an integer`)
}

// A type may contain itself.
func TestRecursiveTypes(t *testing.T) {
	type node struct {
		Name     string
		Children []node
		Next     *node
	}
	type nested []nested
	fits[node](t, map[string]any{"name": "a", "children": []any{map[string]any{"name": "b"}}},
		node{Name: "a", Children: []node{{Name: "b"}}})
	fits[nested](t, []any{[]any{}, []any{[]any{}}}, nested{{}, {{}}})
	refuses[node](t, map[string]any{"next": map[string]any{"next": map[string]any{"name": int64(1)}}},
		".next.next.name' must be str, not int")
}

func TestLongForeignValuesAreCut(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	for _, err := range []error{
		second(arg[uuid.UUID](t, long)),
		second(arg[time.Time](t, long)),
		second(arg[level](t, long)),
		second(arg[map[int]int](t, map[string]any{long: int64(1)})),
	} {
		require.Error(t, err)
		require.Less(t, len(err.Error()), 500)
	}
}

func second[T any](_ T, err error) error { return err }
