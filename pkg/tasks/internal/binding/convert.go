package binding

import (
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// converter puts a wire value into a Go value, exactly or not at all. A nil
// result means that it fits.
type converter func(value any, into reflect.Value) *mismatch

// mismatch is why a value doesn't fit. It grows its path on the way out, so that
// values that fit cost nothing.
type mismatch struct {
	// path leads from the argument to the value, such as "[2].price".
	path string
	// problem completes "argument 'x'", such as " must be int, not str".
	problem string
	err     error
}

func (m *mismatch) in(step string) *mismatch {
	m.path = step + m.path
	return m
}

func (m *mismatch) of(function, argument string) *Error {
	path := cut(argument + m.path)
	return &Error{Function: function, Argument: path, Text: function + "() argument '" + path + "'" + m.problem, Err: m.err}
}

// wrongType is the error of a value of another type than want.
func wrongType(want string, value any) *mismatch {
	return &mismatch{problem: " must be " + want + ", not " + pythonType(value)}
}

// wrongValue is the error of a value of the right type.
func wrongValue(format string, values ...any) *mismatch {
	return &mismatch{problem: ": " + fmt.Sprintf(format, values...)}
}

// pythonType is the name that Python's type(value) has.
func pythonType(value any) string {
	switch value.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case time.Time, protocol.NaiveDateTime:
		return "datetime"
	case protocol.Date:
		return "date"
	case protocol.TimeOfDay:
		return "time"
	case protocol.Decimal:
		return "Decimal"
	case uuid.UUID:
		return "UUID"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	default:
		return fmt.Sprintf("%T", value)
	}
}

// compiler makes converters. It remembers the types it has seen, because types
// may contain themselves.
type compiler struct {
	known map[reflect.Type]*converter
}

func newCompiler() *compiler {
	return &compiler{known: map[reflect.Type]*converter{}}
}

// converterFor returns the converter to t, or an error if no message can hold
// such a value.
func (c *compiler) converterFor(t reflect.Type) (converter, error) {
	if seen, ok := c.known[t]; ok {
		// It may be unfinished now, so it is looked at when it is used.
		return func(value any, into reflect.Value) *mismatch { return (*seen)(value, into) }, nil
	}
	var made converter
	c.known[t] = &made
	var err error
	made, err = c.make(t)
	return made, err
}

func (c *compiler) make(t reflect.Type) (converter, error) {
	if convert := wellKnown(t); convert != nil {
		return convert, nil
	}
	if convert := scalarConverter(t); convert != nil {
		if unmarshalsText(t) {
			return namedScalarConverter(t, convert), nil
		}
		return convert, nil
	}
	if t.Kind() != reflect.Pointer && unmarshalsText(t) {
		return textConverter(t), nil
	}
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return convertAny, nil
		}
	case reflect.Pointer:
		return c.pointer(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return convertBytes, nil
		}
		return c.slice(t)
	case reflect.Array:
		return c.array(t)
	case reflect.Map:
		return c.mapping(t)
	case reflect.Struct:
		return c.structure(t)
	default:
	}
	return nil, fmt.Errorf("no argument can become %s", t)
}

// wellKnown returns the converter of a type that the wire has a form for, nil
// for other types.
func wellKnown(t reflect.Type) converter {
	switch t {
	case reflect.TypeFor[time.Time]():
		return convertTime
	case reflect.TypeFor[time.Duration]():
		return convertDuration
	case reflect.TypeFor[big.Int]():
		return convertBigInt
	case reflect.TypeFor[uuid.UUID]():
		return convertUUID
	case reflect.TypeFor[protocol.Decimal]():
		return convertDecimal
	case reflect.TypeFor[protocol.NaiveDateTime]():
		return convertNaiveDateTime
	case reflect.TypeFor[protocol.Date]():
		return convertDate
	case reflect.TypeFor[protocol.TimeOfDay]():
		return convertTimeOfDay
	default:
		return nil
	}
}

// scalarConverter returns the converter of a basic kind, nil for other kinds.
func scalarConverter(t reflect.Type) converter {
	switch t.Kind() {
	case reflect.Bool:
		return convertBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return convertInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return convertUint
	case reflect.Float32, reflect.Float64:
		return convertFloat
	case reflect.String:
		return convertString
	default:
		return nil
	}
}

func convertAny(value any, into reflect.Value) *mismatch {
	if value == nil {
		into.SetZero()
		return nil
	}
	into.Set(reflect.ValueOf(value))
	return nil
}

func convertBool(value any, into reflect.Value) *mismatch {
	b, ok := value.(bool)
	if !ok {
		return wrongType("bool", value)
	}
	into.SetBool(b)
	return nil
}
