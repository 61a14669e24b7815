package protocol

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ReprLimit is the length in characters at which Celery cuts argsrepr and
// kwargsrepr.
const ReprLimit = 1024

// reprLevels is how many containers deep Celery shows a value.
const reprLevels = 3

// Repr writes v as Python would show it, in the way of Celery's saferepr: nested
// containers below the third level appear as [...] or {...}, and what goes beyond
// limit characters is cut and ends in "...". A limit of 0 or less is none. Maps
// are shown in the order of their keys. The text is for people and monitors; it
// can't be read back.
func Repr(v any, limit int) string {
	w := newReprWriter(limit)
	w.value(v)
	return w.text.String()
}

// ReprArgs writes args as the Python tuple they are for a producer, (1,) or
// (2, 3), cut at ReprLimit. It makes the header argsrepr.
func ReprArgs(args []any) string {
	w := newReprWriter(ReprLimit)
	end := ")"
	if len(args) == 1 {
		end = ",)"
	}
	w.list("(", end, args)
	return w.text.String()
}

// reprWriter writes tokens until the limit is used up; then it closes what is
// open and ignores the rest.
type reprWriter struct {
	text    strings.Builder
	limited bool
	left    int
	closers []string
	stopped bool
}

func newReprWriter(limit int) *reprWriter {
	return &reprWriter{limited: limit > 0, left: limit}
}

// token writes text that is not a closing bracket.
func (w *reprWriter) token(text string) {
	if w.full() {
		return
	}
	w.text.WriteString(text)
	w.left -= characters(text)
}

// full tells whether the limit is used up, and ends the text the first time it
// is.
func (w *reprWriter) full() bool {
	if w.limited && w.left <= 0 && !w.stopped {
		w.stopped = true
		w.text.WriteString(", ...")
		for _, closer := range slices.Backward(w.closers) {
			w.text.WriteString(closer)
		}
	}
	return w.stopped
}

func (w *reprWriter) open(bracket, closer string) {
	w.token(bracket)
	if !w.stopped {
		w.closers = append(w.closers, closer)
	}
}

// closeLast closes the innermost container. A bracket that closes a container
// which was shown to its end is written even if the limit is used up.
func (w *reprWriter) closeLast() {
	if w.stopped {
		return
	}
	last := len(w.closers) - 1
	w.text.WriteString(w.closers[last])
	w.left -= len(w.closers[last])
	w.closers = w.closers[:last]
}

func (w *reprWriter) value(v any) {
	if w.full() {
		return
	}
	switch v := v.(type) {
	case nil:
		w.token(w.truncated("None"))
	case bool:
		w.token(w.truncated(pythonBool(v)))
	case string:
		w.quoted(v)
	case []byte:
		w.bytes(v)
	case []any:
		w.list("[", "]", v)
	case map[string]any:
		w.dict(v)
	default:
		w.other(v)
	}
}

func (w *reprWriter) other(v any) {
	if text, ok := scalarRepr(v); ok {
		w.token(w.truncated(text))
		return
	}
	converted, err := ToValue(v)
	if err != nil {
		w.token(w.truncated(fmt.Sprintf("<%T>", v)))
		return
	}
	w.value(converted)
}

func (w *reprWriter) list(bracket, closer string, items []any) {
	if len(w.closers) >= reprLevels {
		w.token(bracket + "..." + closer)
		return
	}
	w.open(bracket, closer)
	for i, item := range items {
		if w.stopped {
			return
		}
		if i > 0 {
			w.token(", ")
		}
		w.value(item)
	}
	w.closeLast()
}

func (w *reprWriter) dict(m map[string]any) {
	if len(w.closers) >= reprLevels {
		w.token("{...}")
		return
	}
	w.open("{", "}")
	for i, key := range sortedKeys(m) {
		if w.stopped {
			return
		}
		if i > 0 {
			w.token(", ")
		}
		w.quoted(key)
		w.token(": ")
		w.value(m[key])
	}
	w.closeLast()
}

func (w *reprWriter) quoted(s string) {
	if w.full() {
		return
	}
	w.token("'" + strings.ReplaceAll(w.truncated(s), "'", `\'`) + "'")
}

// bytes shows text as it is and other bytes in hexadecimal.
func (w *reprWriter) bytes(b []byte) {
	ellipsis := ""
	if w.limited && len(b) > w.left {
		b, ellipsis = b[:max(w.left, 0)], "..."
	}
	text := string(b)
	if !utf8.Valid(b) {
		text = hex.EncodeToString(b)
	}
	w.token("b'" + text + ellipsis + "'")
}

// truncated cuts s to what the limit leaves, at the last space before it.
func (w *reprWriter) truncated(s string) string {
	if !w.limited || len(s) < w.left {
		return s
	}
	end := 0
	for range w.left {
		if end == len(s) {
			return s
		}
		_, size := decodeRune(s[end:])
		end += size
	}
	return cutAtSpace(s[:end]) + "..."
}

// characters counts as Python does: a lone surrogate is one.
func characters(s string) int {
	if utf8.ValidString(s) {
		return utf8.RuneCountInString(s)
	}
	count := 0
	for i := 0; i < len(s); count++ {
		_, size := decodeRune(s[i:])
		i += size
	}
	return count
}

func cutAtSpace(s string) string {
	if i := strings.LastIndexByte(s, ' '); i >= 0 {
		return s[:i]
	}
	return s
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
