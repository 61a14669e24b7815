package binding

import (
	"encoding"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// convertString takes bytes too if they are text: a producer with an old msgpack
// sends its strings as bytes.
func convertString(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case string:
		into.SetString(v)
	case []byte:
		if !utf8.Valid(v) {
			return wrongValue("the bytes are not UTF-8 text")
		}
		into.SetString(string(v))
	default:
		return wrongType("str", value)
	}
	return nil
}

// convertBytes copies, so that the handler owns what it gets. A string gives its
// UTF-8 bytes: kombu before 5.3 can't send bytes.
func convertBytes(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case nil:
		into.SetZero()
	case []byte:
		into.SetBytes(append([]byte{}, v...))
	case string:
		into.SetBytes([]byte(v))
	default:
		return wrongType("bytes", value)
	}
	return nil
}

func convertUUID(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case uuid.UUID:
		into.Set(reflect.ValueOf(v))
	case string:
		id, err := uuid.Parse(v)
		if err != nil {
			return badText(v, "a UUID")
		}
		into.Set(reflect.ValueOf(id))
	default:
		return wrongType("UUID", value)
	}
	return nil
}

// convertDecimal refuses floats: 0.1 is not the decimal 0.1.
func convertDecimal(value any, into reflect.Value) *mismatch {
	switch v := value.(type) {
	case protocol.Decimal:
		into.SetString(string(v))
	case string:
		decimal, err := protocol.ParseDecimal(v)
		if err != nil {
			return badText(v, "a Decimal")
		}
		into.SetString(string(decimal))
	case int64, *big.Int:
		text, _ := textOf(v)
		into.SetString(text)
	default:
		return wrongType("Decimal", value)
	}
	return nil
}

func unmarshalsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// textConverter serves types that read themselves from text, such as decimals,
// IP addresses and other UUID types. They get the exact text of a value.
func textConverter(t reflect.Type) converter {
	return func(value any, into reflect.Value) *mismatch {
		text, ok := textOf(value)
		if !ok {
			return wrongType(t.String(), value)
		}
		return unmarshal(text, into)
	}
}

// namedScalarConverter serves types such as an enum with names: a string goes to
// UnmarshalText, any other value to the kind underneath.
func namedScalarConverter(t reflect.Type, scalar converter) converter {
	return func(value any, into reflect.Value) *mismatch {
		text, ok := value.(string)
		if ok {
			return unmarshal(text, into)
		}
		if t.Kind() == reflect.String {
			return textConverter(t)(value, into)
		}
		return scalar(value, into)
	}
}

func unmarshal(text string, into reflect.Value) *mismatch {
	target := into.Addr().Interface().(encoding.TextUnmarshaler) //nolint:forcetypeassert // unmarshalsText said so
	if err := target.UnmarshalText([]byte(text)); err != nil {
		return &mismatch{problem: ": " + strconv.Quote(cut(text)) + " is not a " + into.Type().String() + ": " + cut(err.Error()), err: err}
	}
	return nil
}

// textOf is the exact text of a value, for those that have one. Floats have
// none: their shortest text is not their value.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case protocol.Decimal:
		return string(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case *big.Int:
		return v.String(), true
	case uuid.UUID:
		return v.String(), true
	case time.Time:
		return protocol.FormatTime(v), true
	case protocol.NaiveDateTime:
		return strings.TrimSuffix(protocol.FormatTime(v.Time), "+00:00"), true
	case protocol.Date:
		return dateText(v), true
	case protocol.TimeOfDay:
		return string(v), true
	default:
		return "", false
	}
}

func badText(text, what string) *mismatch {
	return wrongValue("%s is not %s", strconv.Quote(cut(text)), what)
}
