package binding

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"time"
)

// fallbackValue reads the text of a default= option. It is kept as a wire value
// and converted anew for each call: a handler that changes what a pointer shows
// must not change the default, as happens with Python's mutable defaults.
func (f *field) fallbackValue(convert converter) (any, error) {
	if !f.hasFallback {
		return nil, nil
	}
	value, err := parseFallback(f.fallback, f.typ)
	if err != nil {
		return nil, fmt.Errorf("default %q: %w", f.fallback, err)
	}
	if problem := convert(value, reflect.New(f.typ).Elem()); problem != nil {
		return nil, fmt.Errorf("default %q%s", f.fallback, problem.problem)
	}
	return value, nil
}

func parseFallback(text string, t reflect.Type) (any, error) {
	if text == "None" && canBeNil(t) {
		return nil, nil
	}
	if t.Kind() == reflect.Pointer {
		return parseFallback(text, t.Elem())
	}
	if t == reflect.TypeFor[time.Duration]() {
		return parseSeconds(text)
	}
	switch {
	case t == reflect.TypeFor[big.Int]():
		return integerFallback(text)
	case wellKnown(t) != nil, unmarshalsText(t), t.Kind() == reflect.String, isBytes(t):
		return text, nil
	}
	return scalarFallback(text, t)
}

func scalarFallback(text string, t reflect.Type) (any, error) {
	switch t.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Float32, reflect.Float64:
		return strconv.ParseFloat(text, 64)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return integerFallback(text)
	default:
		return nil, fmt.Errorf("a default of type %s can't be written in a tag; use optional, which leaves the zero value", t)
	}
}

func integerFallback(text string) (any, error) {
	number, ok := parseInteger(text)
	if !ok {
		return nil, errors.New("not an integer")
	}
	return number, nil
}

// parseSeconds reads seconds, or a duration in Go's form such as "1m30s".
func parseSeconds(text string) (any, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds, nil
	}
	return time.ParseDuration(text)
}

// parseInteger reads a decimal integer into a wire value.
func parseInteger(text string) (any, bool) {
	const longest = 4300 // Python's own limit on the digits of an int
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	if len(text) > longest {
		return nil, false
	}
	n, ok := new(big.Int).SetString(text, 10)
	return n, ok
}

func canBeNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	default:
		return false
	}
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}
