package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxIntDigits is the longest integer that Python reads or writes
// (sys.int_info.default_max_str_digits); the conversion takes quadratic time.
const maxIntDigits = 4300

// DecodeJSON reads one JSON document as Python's json.loads does: NaN, Infinity
// and -Infinity are numbers, integers are exact, a float beyond the range is an
// infinity, the last of duplicate keys counts. Objects that kombu wrote for
// datetime, date, time, Decimal, UUID and bytes become these again.
//
// A lone surrogate, which Python strings may hold and Go strings may not, is kept
// as the three bytes that UTF-8 would give it; EncodeJSON writes it back.
//
// Every error is a *DecodeError; it wraps a *LimitError where the document is
// deeper or has more values than limits allow.
func DecodeJSON(data []byte, limits Limits) (any, error) {
	return decodeJSON(jsonDecoder{data: data, budget: budget{limits: limits}})
}

// DecodePlainJSON is DecodeJSON for documents that kombu has not written: an object
// with a __type__ is one like any other.
func DecodePlainJSON(data []byte, limits Limits) (any, error) {
	return decodeJSON(jsonDecoder{data: data, budget: budget{limits: limits}, plain: true})
}

func decodeJSON(d jsonDecoder) (any, error) {
	v, err := d.document()
	if err != nil {
		return nil, &DecodeError{What: "json", Err: err}
	}
	return v, nil
}

type jsonDecoder struct {
	budget
	data []byte
	pos  int
	// plain leaves objects as they are that stand for kombu's types.
	plain bool
	// whole is the text of a small document, which its strings are parts of.
	whole string
}

// maxWhole is the largest document whose strings are parts of one text: it is also
// what somebody keeps in memory at most who keeps one of them.
const maxWhole = 4 << 10

func (d *jsonDecoder) document() (any, error) {
	if err := d.begin(); err != nil {
		return nil, err
	}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

// begin looks at the document as a whole.
func (d *jsonDecoder) begin() error {
	if !utf8.Valid(d.data) {
		return errors.New("not valid UTF-8")
	}
	if len(d.data) <= maxWhole {
		d.whole = string(d.data)
	}
	return nil
}

// end makes sure that there is nothing more.
func (d *jsonDecoder) end() error {
	if d.space(); d.pos < len(d.data) {
		return d.fail("extra data")
	}
	return nil
}

func (d *jsonDecoder) fail(what string) error {
	return fmt.Errorf("%s at byte %d", what, d.pos)
}

func (d *jsonDecoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// skip moves past c, if it comes next.
func (d *jsonDecoder) skip(c byte) bool {
	if d.pos < len(d.data) && d.data[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *jsonDecoder) value() (any, error) {
	if err := d.item(); err != nil {
		return nil, err
	}
	d.space()
	if d.pos >= len(d.data) {
		return nil, d.fail("expecting value")
	}
	switch c := d.data[d.pos]; {
	case c == '{':
		return d.object()
	case c == '[':
		return d.array()
	case c == '"':
		d.pos++
		return d.text()
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	default:
		return d.constant()
	}
}

// jsonConstants are the words that Python's json reads.
var jsonConstants = [...]struct {
	text  string
	value any
}{
	{"null", nil}, {"true", true}, {"false", false},
	{"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
}

func (d *jsonDecoder) constant() (any, error) {
	for _, c := range &jsonConstants {
		if bytes.HasPrefix(d.data[d.pos:], []byte(c.text)) {
			d.pos += len(c.text)
			return c.value, nil
		}
	}
	return nil, d.fail("expecting value")
}

func (d *jsonDecoder) array() (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.pos++
	list := []any{}
	if d.space(); d.skip(']') {
		return list, nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if d.space(); d.skip(']') {
			return list, nil
		}
		if !d.skip(',') {
			return nil, d.fail("expecting ',' delimiter")
		}
	}
}

func (d *jsonDecoder) object() (any, error) {
	if err := d.enterMap(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.pos++
	m := map[string]any{}
	if d.space(); d.skip('}') {
		return m, nil
	}
	for {
		if err := d.member(m); err != nil {
			return nil, err
		}
		if d.space(); d.skip('}') {
			if d.plain {
				return m, nil
			}
			return decodeTyped(m)
		}
		if !d.skip(',') {
			return nil, d.fail("expecting ',' delimiter")
		}
	}
}

func (d *jsonDecoder) member(m map[string]any) error {
	key, err := d.key()
	if err != nil {
		return err
	}
	v, err := d.value()
	if err != nil {
		return err
	}
	m[key] = v
	return nil
}

// key reads a key and the colon after it.
func (d *jsonDecoder) key() (string, error) {
	if d.space(); !d.skip('"') {
		return "", d.fail("expecting property name enclosed in double quotes")
	}
	key, err := d.text()
	if err != nil {
		return "", err
	}
	if d.space(); !d.skip(':') {
		return "", d.fail("expecting ':' delimiter")
	}
	return key, nil
}

// number reads an integer exactly and a float to the nearest float64.
func (d *jsonDecoder) number() (any, error) {
	start := d.pos
	d.skip('-')
	whole := d.pos
	d.digits()
	switch n := d.pos - whole; {
	case n == 0:
		d.pos = start
		return d.constant()
	case n > 1 && d.data[whole] == '0':
		// 01 is 0 followed by something that should not be there.
		d.pos = whole + 1
		return nil, d.fail("extra data")
	}
	end := d.pos
	isFloat := d.fraction()
	isFloat = d.exponent() || isFloat
	if isFloat {
		// Beyond the range ParseFloat returns the infinity that Python has too.
		f, err := strconv.ParseFloat(string(d.data[start:d.pos]), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, d.fail("bad number")
		}
		return f, nil
	}
	return parseInt(string(d.data[start:end]))
}

func (d *jsonDecoder) digits() {
	for d.pos < len(d.data) && '0' <= d.data[d.pos] && d.data[d.pos] <= '9' {
		d.pos++
	}
}

// fraction and exponent move past theirs only if there is a digit in it;
// otherwise what follows is extra data, as for Python.
func (d *jsonDecoder) fraction() bool {
	return d.part(func() bool { return d.skip('.') })
}

func (d *jsonDecoder) exponent() bool {
	return d.part(func() bool {
		if !d.skip('e') && !d.skip('E') {
			return false
		}
		_ = d.skip('+') || d.skip('-')
		return true
	})
}

func (d *jsonDecoder) part(mark func() bool) bool {
	start := d.pos
	if !mark() {
		return false
	}
	first := d.pos
	if d.digits(); d.pos == first {
		d.pos = start
		return false
	}
	return true
}

// parseInt is the int64 or *big.Int of decimal digits.
func parseInt(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if len(strings.TrimPrefix(text, "-")) > maxIntDigits {
		return nil, &LimitError{What: "digits of an integer", Limit: maxIntDigits}
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, fmt.Errorf("%q is not an integer", cut(text))
	}
	return intValue(n), nil
}
