package protocol

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// EncodeJSON writes v as Python's json.dumps with kombu's types does, byte for
// byte but for the order of keys, which is sorted here: ASCII only, NaN and
// infinities as bare words. datetime, date, time, Decimal, UUID and bytes take
// the form that kombu 5.3 and later turn back into these types. Other Go values
// are converted by ToValue.
//
// Bytes in a string that are not UTF-8 become U+FFFD, as in encoding/json, but
// for the lone surrogates that DecodeJSON keeps. It returns an *EncodeError for
// what ToValue refuses, for integers of more than 4300 digits, and for years
// outside 1 to 9999: Python can read neither.
func EncodeJSON(v any) ([]byte, error) {
	const usual = 256 // bytes of a record or a body of few arguments
	return appendJSON(make([]byte, 0, usual), v, 0)
}

func appendJSON(out []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, encodeErrorf("%w", &LimitError{What: "levels", Limit: maxDepth})
	}
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case float64:
		return append(out, jsonFloat(v)...), nil
	case *big.Int:
		return appendBigInt(out, v)
	case string:
		return appendJSONString(out, v), nil
	case []any:
		return appendJSONList(out, v, depth)
	case map[string]any:
		return appendJSONMap(out, v, depth)
	case rawJSON:
		return append(out, v...), nil
	}
	marker, value, err := typedForm(v)
	if err != nil {
		return nil, err
	}
	if marker != "" {
		return appendTyped(out, marker, value)
	}
	converted, err := toValue(v, depth)
	if err != nil {
		return nil, err
	}
	return appendJSON(out, converted, depth+1)
}

func appendJSONList(out []byte, list []any, depth int) ([]byte, error) {
	out = append(out, '[')
	for i, item := range list {
		if i > 0 {
			out = append(out, ", "...)
		}
		var err error
		if out, err = appendJSON(out, item, depth+1); err != nil {
			return nil, inPath("["+strconv.Itoa(i)+"]", err)
		}
	}
	return append(out, ']'), nil
}

func appendJSONMap(out []byte, m map[string]any, depth int) ([]byte, error) {
	out = append(out, '{')
	for i, key := range sortedKeys(m) {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(appendJSONString(out, key), ": "...)
		var err error
		if out, err = appendJSON(out, m[key], depth+1); err != nil {
			return nil, inPath("."+key, err)
		}
	}
	return append(out, '}'), nil
}

func appendBigInt(out []byte, n *big.Int) ([]byte, error) {
	if n == nil {
		return append(out, "null"...), nil
	}
	// A digit takes more than three bits: this refuses nothing that Python reads,
	// and spares the conversion of what is far too long.
	if n.BitLen() <= maxIntDigits*4 {
		text := n.String()
		if len(strings.TrimPrefix(text, "-")) <= maxIntDigits {
			return append(out, text...), nil
		}
	}
	return nil, encodeErrorf("%w", &LimitError{What: "digits of an integer", Limit: maxIntDigits})
}

// typedForm gives the __type__ and __value__ of what JSON has no form for, and
// "" for everything else.
func typedForm(v any) (marker string, value any, err error) {
	switch v := v.(type) {
	case time.Time:
		return "datetime", FormatTime(v), checkTime(v)
	case NaiveDateTime:
		return "datetime", formatNaive(v.Time), checkTime(v.Time)
	case Date:
		t := v.midnight()
		return "date", t.Format(time.DateOnly), checkTime(t)
	case TimeOfDay:
		return "time", string(v), nil
	case Decimal:
		return "decimal", string(v), nil
	case uuid.UUID:
		return "uuid", map[string]any{"hex": hex.EncodeToString(v[:])}, nil
	case []byte:
		if utf8.Valid(v) {
			return "bytes", string(v), nil
		}
		return "base64", base64.StdEncoding.EncodeToString(v), nil
	}
	return "", nil, nil
}

// checkTime refuses times that a Python datetime can't hold.
func checkTime(t time.Time) error {
	_, offset := t.Zone()
	if t.Year() < 1 || t.Year() > 9999 || offset <= -24*60*60 || offset >= 24*60*60 {
		return encodeErrorf("time %s is outside what Python can hold", FormatTime(t))
	}
	return nil
}

func appendTyped(out []byte, marker string, value any) ([]byte, error) {
	out = append(out, `{"__type__": "`...)
	out = append(out, marker...)
	out = append(out, `", "__value__": `...)
	out, err := appendJSON(out, value, 0)
	return append(out, '}'), err
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return pythonFloat(f)
}

// pythonFloat is Python's repr of a float: the shortest text that reads back as
// f, with an exponent below 1e-4 and from 1e16 on, and ".0" after a whole number.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if f == math.Trunc(f) {
		text += ".0"
	}
	return text
}
