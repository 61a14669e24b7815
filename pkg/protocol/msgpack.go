package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// decodeMsgpack reads one msgpack document as Python's unpackb(raw=False) does:
// str and bin are told apart, a str must be UTF-8, a map key a str. Extension
// types are refused: no serializer of Celery writes them.
func decodeMsgpack(data []byte, limits Limits) (any, error) {
	// A bytes.Reader is not read ahead of, so Len is what is left of the document.
	d := msgpackDecoder{input: bytes.NewReader(data), budget: budget{limits: limits}}
	d.Decoder = msgpack.NewDecoder(d.input)
	v, err := d.value()
	if err == nil && d.input.Len() > 0 {
		err = fmt.Errorf("%d bytes of extra data", d.input.Len())
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, &DecodeError{What: "msgpack", Err: err}
	}
	return v, nil
}

type msgpackDecoder struct {
	*msgpack.Decoder
	budget
	input *bytes.Reader
}

func (d *msgpackDecoder) value() (any, error) {
	if err := d.item(); err != nil {
		return nil, err
	}
	code, err := d.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case code == msgpcode.Nil:
		return nil, d.DecodeNil()
	case code == msgpcode.True, code == msgpcode.False:
		return d.DecodeBool()
	case code == msgpcode.Float, code == msgpcode.Double:
		return d.DecodeFloat64()
	case code == msgpcode.Uint64:
		n, err := d.DecodeUint64()
		return intValue(new(big.Int).SetUint64(n)), err
	case msgpcode.IsFixedNum(code), code >= msgpcode.Uint8 && code <= msgpcode.Int64:
		return d.DecodeInt64()
	case msgpcode.IsString(code):
		return d.text()
	case msgpcode.IsBin(code):
		return d.bytes()
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return d.list()
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return d.mapping()
	}
	return nil, fmt.Errorf("type 0x%02x is an extension or unknown", code)
}

// fits checks a length against what is left, before anything of that size is
// allocated; every item takes at least a byte.
func (d *msgpackDecoder) fits(n int) error {
	if n < 0 || n > d.input.Len() {
		return fmt.Errorf("length %d is more than the %d bytes left", n, d.input.Len())
	}
	return nil
}

func (d *msgpackDecoder) bytes() ([]byte, error) {
	n, err := d.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if err := d.fits(n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, d.ReadFull(b)
}

func (d *msgpackDecoder) text() (string, error) {
	b, err := d.bytes()
	if err == nil && !utf8.Valid(b) {
		err = errors.New("a str that is not valid UTF-8")
	}
	return string(b), err
}

func (d *msgpackDecoder) list() (any, error) {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := d.fits(n); err != nil {
		return nil, err
	}
	// Without a capacity: n items of one byte each would take sixteen times the
	// size of the document before the limit on values is met.
	list := []any{}
	for range n {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *msgpackDecoder) mapping() (any, error) {
	n, err := d.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	if err := d.enterMap(); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := d.fits(n); err != nil {
		return nil, err
	}
	m := map[string]any{}
	for range n {
		code, err := d.PeekCode()
		if err != nil {
			return nil, err
		}
		if !msgpcode.IsString(code) {
			return nil, fmt.Errorf("a map key of type 0x%02x, not a str", code)
		}
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		if m[key], err = d.value(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// encodeMsgpack writes v as Python's packb(use_bin_type=True) does. What msgpack
// has no form for, such as times and decimals, is an EncodeError, as in Python.
func encodeMsgpack(v any) ([]byte, error) {
	var out bytes.Buffer
	e := msgpackEncoder{msgpack.NewEncoder(&out)}
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

type msgpackEncoder struct{ *msgpack.Encoder }

func (e msgpackEncoder) value(v any, depth int) error {
	if depth > maxDepth {
		return encodeErrorf("%w", &LimitError{What: "levels", Limit: maxDepth})
	}
	switch v := v.(type) {
	case nil:
		return e.EncodeNil()
	case bool:
		return e.EncodeBool(v)
	case int64:
		return e.EncodeInt(v)
	case float64:
		return e.EncodeFloat64(v)
	case *big.Int:
		return e.bigInt(v)
	case string:
		return e.EncodeString(strings.ToValidUTF8(v, "\uFFFD"))
	case []byte:
		if v == nil {
			v = []byte{}
		}
		return e.EncodeBytes(v)
	case []any:
		return e.list(v, depth)
	case map[string]any:
		return e.mapping(v, depth)
	case time.Time, NaiveDateTime, Date, TimeOfDay, Decimal, uuid.UUID:
		return encodeErrorf("msgpack has no form for %s", pythonType(v))
	}
	converted, err := toValue(v, depth)
	if err != nil {
		return err
	}
	return e.value(converted, depth+1)
}

func (e msgpackEncoder) bigInt(n *big.Int) error {
	switch {
	case n == nil:
		return e.EncodeNil()
	case n.IsInt64():
		return e.EncodeInt(n.Int64())
	case n.IsUint64():
		return e.EncodeUint(n.Uint64())
	}
	return encodeErrorf("an integer of %d bits is too large for msgpack", n.BitLen())
}

func (e msgpackEncoder) list(list []any, depth int) error {
	if err := e.EncodeArrayLen(len(list)); err != nil {
		return err
	}
	for i, item := range list {
		if err := e.value(item, depth+1); err != nil {
			return inPath("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

func (e msgpackEncoder) mapping(m map[string]any, depth int) error {
	if err := e.EncodeMapLen(len(m)); err != nil {
		return err
	}
	for _, key := range sortedKeys(m) {
		if err := e.value(key, depth); err != nil {
			return err
		}
		if err := e.value(m[key], depth+1); err != nil {
			return inPath("."+key, err)
		}
	}
	return nil
}
