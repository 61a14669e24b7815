package protocol

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// decodeTyped undoes kombu's form for types that JSON lacks: an object with
// exactly the keys __type__ and __value__. A type that kombu does not know is an
// error there, and so it is here.
func decodeTyped(m map[string]any) (any, error) {
	if len(m) != 2 {
		return m, nil
	}
	marker, hasType := m["__type__"]
	value, hasValue := m["__value__"]
	if !hasType || !hasValue {
		return m, nil
	}
	name, ok := marker.(string)
	if !ok {
		return nil, fmt.Errorf("__type__ is %s, not a string", Repr(marker, 40))
	}
	if name == "uuid" {
		return decodeUUID(value)
	}
	text, ok := value.(string)
	if !ok {
		return decodeTypedNumber(name, value)
	}
	return decodeTypedText(name, text)
}

func decodeTypedText(name, text string) (any, error) {
	switch name {
	case "datetime":
		return decodeDateTime(text)
	case "date":
		t, _, err := parseISO(text, offsetSeconds)
		return Date{t.Year(), t.Month(), t.Day()}, err
	case "time":
		_, _, err := parseTimeOfDay(text)
		return TimeOfDay(text), err
	case "decimal":
		return ParseDecimal(text)
	case "bytes":
		if !utf8.ValidString(text) {
			return nil, errors.New("__type__ bytes with a lone surrogate")
		}
		return []byte(text), nil
	case "base64":
		return decodeBase64(text)
	}
	return nil, fmt.Errorf("unsupported __type__ %q", cut(name))
}

// decodeTypedNumber covers Decimal(1), which Python accepts and nothing else
// does.
func decodeTypedNumber(name string, value any) (any, error) {
	if name == "decimal" {
		switch value.(type) {
		case int64, *big.Int:
			return Decimal(Repr(value, 0)), nil
		}
	}
	return nil, fmt.Errorf("unsupported __type__ %q of %s", cut(name), pythonType(value))
}

// decodeDateTime keeps aware and naive datetimes apart.
func decodeDateTime(text string) (any, error) {
	t, aware, err := parseISO(text, offsetSeconds)
	if err != nil {
		return nil, err
	}
	if aware {
		return t, nil
	}
	return NaiveDateTime{t}, nil
}

// decodeUUID reads {"hex": "..."}; kombu 5.3.0 adds the version, which Python
// writes into the bits of the UUID.
func decodeUUID(value any) (any, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("__type__ uuid of %s", pythonType(value))
	}
	text, ok := fields["hex"].(string)
	if !ok {
		return nil, errors.New("__type__ uuid without hex")
	}
	text = strings.NewReplacer("urn:", "", "uuid:", "").Replace(text)
	id, err := uuid.Parse(strings.ReplaceAll(strings.Trim(text, "{}"), "-", ""))
	if err != nil {
		return nil, fmt.Errorf("uuid %q: %w", cut(text), err)
	}
	if version, ok := fields["version"].(int64); ok {
		if version < 1 || version > 8 {
			return nil, fmt.Errorf("uuid version %d is not 1 to 8", version)
		}
		id[6] = id[6]&0x0F | byte(version)<<4
		id[8] = id[8]&0x3F | 0x80
	}
	return id, nil
}

// pythonType is the name of the type that a wire value has in Python, as its
// error messages give it.
func pythonType(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	case time.Time, NaiveDateTime:
		return "datetime.datetime"
	case Date:
		return "datetime.date"
	case TimeOfDay:
		return "datetime.time"
	case Decimal:
		return "decimal.Decimal"
	case uuid.UUID:
		return "UUID"
	}
	return fmt.Sprintf("%T", v)
}
