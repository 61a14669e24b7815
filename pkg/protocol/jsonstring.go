package protocol

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string after its opening quote.
func (d *jsonDecoder) text() (string, error) {
	start := d.pos
	end := start + literal(d.data[start:])
	if end == len(d.data) {
		return "", d.fail("unterminated string")
	}
	switch d.data[end] {
	case '"':
		d.pos = end + 1
		return d.piece(start, end), nil
	case '\\':
		return d.escapedText()
	}
	d.pos = end
	return "", d.fail("invalid control character")
}

// piece is a part of the document.
func (d *jsonDecoder) piece(start, end int) string {
	if d.whole != "" {
		return d.whole[start:end]
	}
	return string(d.data[start:end])
}

// literal is how many bytes there are before the first that can't stand for itself in a
// string: a quote, a backslash or a control character. Eight are looked at together,
// because bodies are long.
func literal(data []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(data); n += 8 {
		word := binary.LittleEndian.Uint64(data[n:])
		quote, backslash := word^(ones*'"'), word^(ones*'\\')
		// The top bit of a byte is set where it is 0, or below 0x20; bytes above one
		// that is found may be set for nothing, which costs a second look.
		found := (quote-ones)&^quote | (backslash-ones)&^backslash | (word-ones*0x20)&^word
		if found&tops != 0 {
			break
		}
	}
	for n < len(data) && data[n] != '"' && data[n] != '\\' && data[n] >= 0x20 {
		n++
	}
	return n
}

func (d *jsonDecoder) escapedText() (string, error) {
	var out []byte
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			return string(out), nil
		case c == '\\':
			var err error
			if out, err = d.escape(out); err != nil {
				return "", err
			}
		case c < 0x20:
			return "", d.fail("invalid control character")
		default:
			out = append(out, c)
			d.pos++
		}
	}
	return "", d.fail("unterminated string")
}

// escape appends what a backslash and what follows it stand for.
func (d *jsonDecoder) escape(out []byte) ([]byte, error) {
	d.pos++
	if d.pos >= len(d.data) {
		return nil, d.fail("unterminated string")
	}
	c := d.data[d.pos]
	if c == 'u' {
		return d.unicodeEscape(out)
	}
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	i := strings.IndexByte(names, c)
	if i < 0 {
		return nil, d.fail("invalid \\escape")
	}
	d.pos++
	return append(out, values[i]), nil
}

func (d *jsonDecoder) unicodeEscape(out []byte) ([]byte, error) {
	r, err := d.hex4()
	if err != nil {
		return nil, err
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), nil
	}
	if bytes.HasPrefix(d.data[d.pos:], []byte(`\u`)) {
		second := *d
		second.pos++
		if low, err := second.hex4(); err == nil {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				d.pos = second.pos
				return utf8.AppendRune(out, pair), nil
			}
		}
	}
	return appendSurrogate(out, r), nil
}

// hex4 reads the four digits after a \u whose u is next.
func (d *jsonDecoder) hex4() (rune, error) {
	if d.pos+5 > len(d.data) {
		return 0, d.fail("invalid \\uXXXX escape")
	}
	n, err := strconv.ParseUint(string(d.data[d.pos+1:d.pos+5]), 16, 16)
	if err != nil {
		return 0, d.fail("invalid \\uXXXX escape")
	}
	d.pos += 5
	return rune(n), nil
}

// appendSurrogate writes a lone surrogate in the three bytes that utf8.AppendRune
// refuses to write.
func appendSurrogate(out []byte, r rune) []byte {
	return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
}

// appendJSONString writes a string in ASCII, as Python does.
func appendJSONString(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); {
		if n := plainASCII(s[i:]); n > 0 {
			out = append(out, s[i:i+n]...)
			i += n
			continue
		}
		if s[i] < utf8.RuneSelf {
			out = appendJSONByte(out, s[i])
			i++
			continue
		}
		r, size := decodeRune(s[i:])
		i += size
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			out = appendUnicodeEscape(appendUnicodeEscape(out, high), low)
			continue
		}
		out = appendUnicodeEscape(out, r)
	}
	return append(out, '"')
}

// plainASCII is how many bytes there are before the first that is written in another
// way than it is.
func plainASCII(s string) int {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7F || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

// decodeRune is utf8.DecodeRuneInString that reads lone surrogates as well.
func decodeRune(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	if r != utf8.RuneError || size != 1 {
		return r, size
	}
	if len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, size
}

// appendJSONByte writes an ASCII byte that can't stand for itself.
func appendJSONByte(out []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	}
	return appendUnicodeEscape(out, rune(c))
}

func appendUnicodeEscape(out []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
