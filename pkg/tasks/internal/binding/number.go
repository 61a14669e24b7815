package binding

import (
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// A number fits where the field's type can hold exactly that number: 2.0 fits an
// int and 3 a float64, 2.5 and 2^53+1 don't. Python's bool is an int, a Go bool
// is not, so neither stands for the other here. float32 is the one type that
// takes the nearest value, or else it could take hardly any.

func convertInt(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case int64:
		if into.OverflowInt(v) {
			return outOfRange(strconv.FormatInt(v, 10), into.Type())
		}
		into.SetInt(v)
	case *big.Int:
		return outOfRange(integerText(v), into.Type())
	case float64:
		switch {
		case math.Trunc(v) != v:
			return notInteger(v)
		case v < -1<<63 || v >= 1<<63 || into.OverflowInt(int64(v)):
			return outOfRange(floatText(v), into.Type())
		}
		into.SetInt(int64(v))
	default:
		return wrongType("int", value)
	}
	return nil
}

func convertUint(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case int64:
		if v < 0 || into.OverflowUint(uint64(v)) {
			return outOfRange(strconv.FormatInt(v, 10), into.Type())
		}
		into.SetUint(uint64(v))
	case *big.Int:
		if !v.IsUint64() || into.OverflowUint(v.Uint64()) {
			return outOfRange(integerText(v), into.Type())
		}
		into.SetUint(v.Uint64())
	case float64:
		switch {
		case math.Trunc(v) != v:
			return notInteger(v)
		case v < 0 || v >= 1<<64 || into.OverflowUint(uint64(v)):
			return outOfRange(floatText(v), into.Type())
		}
		into.SetUint(uint64(v))
	default:
		return wrongType("int", value)
	}
	return nil
}

func convertBigInt(value any, into reflect.Value) *mismatch {
	number := into.Addr().Interface().(*big.Int) //nolint:forcetypeassert // wellKnown chose this converter by the type
	switch v := value.(type) {
	case int64:
		number.SetInt64(v)
	case *big.Int:
		number.Set(v)
	case float64:
		if math.Trunc(v) != v || math.IsInf(v, 0) {
			return notInteger(v)
		}
		big.NewFloat(v).Int(number)
	default:
		return wrongType("int", value)
	}
	return nil
}

func convertFloat(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case float64:
		if into.OverflowFloat(v) {
			return outOfRange(floatText(v), into.Type())
		}
		into.SetFloat(v)
	case int64:
		return floatFromInteger(big.NewInt(v), into)
	case *big.Int:
		return floatFromInteger(v, into)
	default:
		return wrongType("float", value)
	}
	return nil
}

func floatFromInteger(n *big.Int, into reflect.Value) *mismatch {
	number := new(big.Float).SetInt(n)
	f, accuracy := number.Float64()
	if into.Type().Bits() == 32 {
		var single float32
		single, accuracy = number.Float32()
		f = float64(single)
	}
	if accuracy != big.Exact {
		return wrongValue("%s can't be held exactly by %s", integerText(n), into.Type())
	}
	into.SetFloat(f)
	return nil
}

// convertDuration takes seconds, whole or not, as Celery counts time everywhere;
// a fraction is rounded to nanoseconds. The last case is a default in Go's form.
func convertDuration(value any, into reflect.Value) *mismatch {
	const longest = math.MaxInt64 / int64(time.Second)
	switch v := value.(type) {
	case int64:
		if v > longest || v < -longest {
			return wrongValue("%d s is longer than a duration can be (%d s)", v, longest)
		}
		into.SetInt(v * int64(time.Second))
	case float64:
		if !(math.Abs(v) <= float64(longest)) { // NaN too
			return wrongValue("%s s is longer than a duration can be (%d s)", floatText(v), longest)
		}
		into.SetInt(int64(math.Round(v * float64(time.Second))))
	case time.Duration:
		into.SetInt(int64(v))
	default:
		return wrongType("a number of seconds", value)
	}
	return nil
}

func notInteger(v float64) *mismatch {
	return wrongValue("%s is not an integer", floatText(v))
}

func outOfRange(number string, t reflect.Type) *mismatch {
	return wrongValue("%s is out of range for %s (%s)", number, t, rangeOf(t))
}

func rangeOf(t reflect.Type) string {
	bits := t.Bits()
	switch t.Kind() {
	case reflect.Float32:
		return "up to " + floatText(math.MaxFloat32)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "0 to " + strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	default:
		highest := int64(math.MaxInt64 >> (64 - bits))
		return strconv.FormatInt(-highest-1, 10) + " to " + strconv.FormatInt(highest, 10)
	}
}

// integerText avoids the decimal form of a huge integer: it costs quadratic time
// and nobody reads it.
func integerText(n *big.Int) string {
	const longest = 512
	if n.BitLen() > longest {
		return "an integer of " + strconv.Itoa(n.BitLen()) + " bits"
	}
	return n.String()
}

func floatText(v float64) string { return protocol.Repr(v, 0) }
