package protocol

import (
	"encoding"
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// maxDepth bounds what is encoded; it is also what stops a value that contains
// itself. It is larger than the default depth of a decoded message, so that what
// came in can go out inside a result.
const maxDepth = 256

// valuer is implemented by the types of this package that are maps on the wire.
type valuer interface{ Value() map[string]any }

// coefficient is implemented by shopspring/decimal: the value is
// Coefficient × 10^Exponent.
type coefficient interface {
	Coefficient() *big.Int
	Exponent() int32
}

// digits is implemented by decimals of cockroachdb/apd. Its text form is exact.
type digits interface {
	NumDigits() int64
	encoding.TextMarshaler
}

// ToValue turns a Go value into one that goes over the wire; the package comment
// lists these. Pointers are followed and named types stripped. An integer beyond
// int64 becomes a *big.Int, a time.Duration its seconds, a decimal type its exact
// text. A struct becomes a map under the names of its `celery:"name,omitempty"`
// tags, else of its `json` tags, else of its fields; "-" leaves a field out, an
// embedded struct is flattened. Other types are taken by their MarshalJSON,
// MarshalText or Error method. A nil slice or map is an empty one.
//
// It returns an *EncodeError for channels, functions, complex numbers, maps with
// keys that are neither strings nor integers, and values nested deeper than 256
// levels, such as those that contain themselves.
func ToValue(v any) (any, error) { return toValue(v, 0) }

func toValue(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, encodeErrorf("%w", &LimitError{What: "levels", Limit: maxDepth})
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string, []byte, time.Time, NaiveDateTime, Date, TimeOfDay, Decimal, uuid.UUID:
		return v, nil
	case int:
		return int64(v), nil
	case []any:
		return listValue(v, depth)
	case map[string]any:
		return mapValue(v, depth)
	case *big.Int:
		if v == nil {
			return nil, nil
		}
		return intValue(v), nil
	case time.Duration:
		return v.Seconds(), nil
	case json.Number:
		return numberValue(v)
	}
	return reflectedValue(reflect.ValueOf(v), depth)
}

func listValue(list []any, depth int) (any, error) {
	out := make([]any, len(list))
	for i, item := range list {
		value, err := toValue(item, depth+1)
		if err != nil {
			return nil, inPath("["+strconv.Itoa(i)+"]", err)
		}
		out[i] = value
	}
	return out, nil
}

func mapValue(m map[string]any, depth int) (any, error) {
	out := make(map[string]any, len(m))
	for key, item := range m {
		value, err := toValue(item, depth+1)
		if err != nil {
			return nil, inPath("."+key, err)
		}
		out[key] = value
	}
	return out, nil
}

// intValue is n as int64 where that can hold it.
func intValue(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

func numberValue(n json.Number) (any, error) {
	if i, ok := new(big.Int).SetString(n.String(), 10); ok && len(n) <= maxIntDigits {
		return intValue(i), nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, encodeErrorf("json.Number %q: %w", n.String(), err)
	}
	return f, nil
}

func reflectedValue(v reflect.Value, depth int) (any, error) {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil, nil
	}
	if value, ok, err := methodValue(v, depth); ok || err != nil {
		return value, err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return toValue(v.Elem().Interface(), depth+1)
	case reflect.Struct:
		out := make(map[string]any, v.NumField())
		return out, addFields(out, v, depth)
	case reflect.Slice, reflect.Array:
		return reflectedList(v, depth)
	case reflect.Map:
		return reflectedMap(v, depth)
	default:
		return scalarValue(v)
	}
}

func scalarValue(v reflect.Value) (any, error) {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return intValue(new(big.Int).SetUint64(v.Uint())), nil
	case reflect.Float32:
		// The shortest text of a float32 is what its author wrote: 0.1, not
		// 0.10000000149011612.
		return strconv.ParseFloat(strconv.FormatFloat(v.Float(), 'g', -1, 32), 64)
	case reflect.Float64:
		return v.Float(), nil
	default:
		return nil, encodeErrorf("type %s has no form on the wire", v.Type())
	}
}

// methodValue asks the value itself for its form; ok tells whether it has one. Its
// methods are the user's: a panic in one is an error of this value.
func methodValue(v reflect.Value, depth int) (value any, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, ok, err = nil, true, encodeErrorf("%s: panic: %v", v.Type(), p)
		}
	}()
	switch m := withMethods(v).(type) {
	case *time.Time:
		return *m, true, nil
	case *NaiveDateTime:
		return *m, true, nil
	case *uuid.UUID:
		return *m, true, nil
	case *big.Int:
		return intValue(m), true, nil
	case valuer:
		value, err = toValue(m.Value(), depth)
	case coefficient:
		value = decimalOf(m.Coefficient(), int(m.Exponent()))
	case digits:
		value, err = decimalText(m)
	case json.Marshaler:
		value, err = marshaledValue(m)
	case encoding.TextMarshaler:
		var text []byte
		text, err = m.MarshalText()
		value = string(text)
	case error:
		value = m.Error()
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, encodeErrorf("%s: %w", v.Type(), err)
	}
	return value, true, nil
}

// withMethods returns v behind a pointer, whose method set is the whole one; many
// types, such as big.Int, have their methods on the pointer only.
func withMethods(v reflect.Value) any {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface || reflect.PointerTo(v.Type()).NumMethod() == 0 {
		return v.Interface()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}

func marshaledValue(m json.Marshaler) (any, error) {
	data, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return DecodeJSON(data, DefaultLimits())
}

func reflectedList(v reflect.Value, depth int) (any, error) {
	if v.Type().Elem() == reflect.TypeFor[byte]() {
		out := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(out), v)
		return out, nil
	}
	out := make([]any, v.Len())
	for i := range out {
		value, err := toValue(v.Index(i).Interface(), depth+1)
		if err != nil {
			return nil, inPath("["+strconv.Itoa(i)+"]", err)
		}
		out[i] = value
	}
	return out, nil
}

func reflectedMap(v reflect.Value, depth int) (any, error) {
	out := make(map[string]any, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		key, err := keyText(iter.Key())
		if err != nil {
			return nil, err
		}
		value, err := toValue(iter.Value().Interface(), depth+1)
		if err != nil {
			return nil, inPath("."+key, err)
		}
		out[key] = value
	}
	return out, nil
}

// keyText writes integer keys in decimal, as Python's json does.
func keyText(key reflect.Value) (string, error) {
	switch {
	case key.Kind() == reflect.String:
		return key.String(), nil
	case key.CanInt():
		return strconv.FormatInt(key.Int(), 10), nil
	case key.CanUint():
		return strconv.FormatUint(key.Uint(), 10), nil
	}
	return "", encodeErrorf("map key of type %s is neither a string nor an integer", key.Type())
}
