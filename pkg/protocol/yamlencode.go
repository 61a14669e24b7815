package protocol

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// encodeYAML writes v so that PyYAML's safe_load reads it back: in the flow style,
// which is JSON with YAML's own scalars. What safe_dump has no form for, such as
// decimals and UUIDs, is an EncodeError.
func encodeYAML(v any) ([]byte, error) {
	out, err := appendYAML(nil, v, 0)
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

func appendYAML(out []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, encodeErrorf("%w", &LimitError{What: "levels", Limit: maxDepth})
	}
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case *big.Int:
		return appendBigInt(out, v)
	case string:
		return appendYAMLString(out, v), nil
	case []byte:
		return fmt.Appendf(out, "!!binary %q", base64.StdEncoding.EncodeToString(v)), nil
	case []any:
		return appendYAMLList(out, v, depth)
	case map[string]any:
		return appendYAMLMap(out, v, depth)
	case int64, float64, time.Time, NaiveDateTime, Date, TimeOfDay, Decimal:
		text, err := yamlText(v)
		return append(out, text...), err
	}
	converted, err := toValue(v, depth)
	if err != nil {
		return nil, err
	}
	if text, ok := scalarRepr(converted); ok && pythonType(converted) == "UUID" {
		return nil, encodeErrorf("yaml has no form for %s", text)
	}
	return appendYAML(out, converted, depth+1)
}

// yamlText is a plain scalar that resolves to v.
func yamlText(v any) (string, error) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), nil
	case *big.Int:
		return v.String(), nil
	case float64:
		return yamlFloatText(v), nil
	case time.Time:
		// YAML 1.1 has no seconds in offsets.
		if _, offset := v.Zone(); offset%60 != 0 {
			v = v.UTC()
		}
		return FormatTime(v), checkTime(v)
	case NaiveDateTime:
		return formatNaive(v.Time), checkTime(v.Time)
	case Date:
		return v.midnight().Format(time.DateOnly), checkTime(v.midnight())
	}
	return "", encodeErrorf("yaml has no form for %s", pythonType(v))
}

// yamlFloatText has a point in every number: 1e+16 is a string in YAML 1.1.
func yamlFloatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return ".nan"
	case math.IsInf(f, 1):
		return ".inf"
	case math.IsInf(f, -1):
		return "-.inf"
	}
	text := pythonFloat(f)
	if !strings.Contains(text, ".") {
		text = strings.Replace(text, "e", ".0e", 1)
	}
	return text
}

func appendYAMLList(out []byte, list []any, depth int) ([]byte, error) {
	out = append(out, '[')
	for i, item := range list {
		if i > 0 {
			out = append(out, ", "...)
		}
		var err error
		if out, err = appendYAML(out, item, depth+1); err != nil {
			return nil, inPath("["+strconv.Itoa(i)+"]", err)
		}
	}
	return append(out, ']'), nil
}

func appendYAMLMap(out []byte, m map[string]any, depth int) ([]byte, error) {
	out = append(out, '{')
	for i, key := range sortedKeys(m) {
		if i > 0 {
			out = append(out, ", "...)
		}
		// A key without the mark may not be longer than 1024 characters.
		out = append(appendYAMLString(append(out, "? "...), key), " : "...)
		var err error
		if out, err = appendYAML(out, m[key], depth+1); err != nil {
			return nil, inPath("."+key, err)
		}
	}
	return append(out, '}'), nil
}

// appendYAMLString writes a double-quoted string in ASCII. It differs from JSON's
// in that a character beyond 16 bits is one escape, not a pair of surrogates.
func appendYAMLString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r >= 0x20 && r < 0x7F:
			out = append(out, byte(r))
		case r <= 0xFF:
			out = fmt.Appendf(out, `\x%02x`, r)
		case r <= 0xFFFF:
			out = appendUnicodeEscape(out, r)
		default:
			out = fmt.Appendf(out, `\U%08x`, r)
		}
	}
	return append(out, '"')
}
