package protocol

import (
	"fmt"
	"math"
	"math/big"
	"time"
)

// fieldReader reads the fields of a decoded map; missing and null ones are zero
// values. It keeps the first error.
type fieldReader struct {
	fields map[string]any
	err    error
}

func (r *fieldReader) fail(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is %s, not %s", name, Repr(r.fields[name], 60), want)
	}
}

func (r *fieldReader) text(name string) string {
	text, ok := r.fields[name].(string)
	if !ok && r.fields[name] != nil {
		r.fail(name, "a string")
	}
	return text
}

func (r *fieldReader) list(name string) []any {
	list, ok := r.fields[name].([]any)
	if !ok && r.fields[name] != nil {
		r.fail(name, "a list")
	}
	return list
}

func (r *fieldReader) mapping(name string) map[string]any {
	m, ok := r.fields[name].(map[string]any)
	if !ok && r.fields[name] != nil {
		r.fail(name, "a mapping")
	}
	return m
}

// number reads an integer that is not negative.
func (r *fieldReader) number(name string) int {
	n, ok := intOf(r.fields[name])
	if (!ok && r.fields[name] != nil) || n < 0 {
		r.fail(name, "a whole number from 0 on")
		return 0
	}
	return n
}

func (r *fieldReader) optionalNumber(name string) *int {
	if r.fields[name] == nil {
		return nil
	}
	n, ok := intOf(r.fields[name])
	if !ok {
		r.fail(name, "a whole number")
	}
	return &n
}

func (r *fieldReader) flag(name string) bool {
	flag := r.optionalFlag(name)
	return flag != nil && *flag
}

// optionalFlag reads a boolean, or a number as Python's truth of it.
func (r *fieldReader) optionalFlag(name string) *bool {
	flag, ok := flagOf(r.fields[name])
	if !ok {
		r.fail(name, "a boolean")
	}
	return flag
}

// texts reads a list of strings.
func (r *fieldReader) texts(name string) []string {
	texts, ok := textsOf(r.list(name))
	if !ok {
		r.fail(name, "a list of strings")
	}
	return texts
}

// flagOf is the boolean that v is, or its truth for Python if it is an integer; nil for
// none.
func flagOf(v any) (*bool, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case bool:
		return &v, true
	case int64:
		flag := v != 0
		return &flag, true
	}
	return nil, false
}

// textsOf are the strings of a list that holds nothing else; nil for none.
func textsOf(list []any) ([]string, bool) {
	if list == nil {
		return nil, true
	}
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}

// intOf is v as an int if it is a whole number that an int holds.
func intOf(v any) (int, bool) {
	switch v := v.(type) {
	case int64:
		return int(v), int64(int(v)) == v
	case int:
		return v, true
	case float64:
		const exact = 1 << 53
		return int(v), v == math.Trunc(v) && math.Abs(v) <= exact
	}
	return 0, false
}

// secondsOf is a number of seconds as a duration; what is longer than a duration
// can be (292 years) is cut to that.
func secondsOf(v any) (time.Duration, bool) {
	var seconds float64
	switch v := v.(type) {
	case nil:
		return 0, true
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	case *big.Int:
		seconds, _ = new(big.Float).SetInt(v).Float64()
	default:
		return 0, false
	}
	if math.IsNaN(seconds) || seconds < 0 {
		return 0, false
	}
	if seconds >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), true
}

// secondsValue is a duration in seconds, whole where it is; null for none.
func secondsValue(d time.Duration) any {
	switch {
	case d == 0:
		return nil
	case d%time.Second == 0:
		return int64(d / time.Second)
	}
	return d.Seconds()
}
