package protocol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The vectors were captured from real Celery workers and clients. They are read
// with the decoder under test; TestDecodeJSONAsPython compares that with Python's.

func readVector(tb testing.TB, path string) map[string]any {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", path))
	require.NoError(tb, err)
	v, err := DecodeJSON(data, DefaultLimits())
	require.NoError(tb, err)
	return mapping(tb, v)
}

func mapping(tb testing.TB, v any) map[string]any {
	tb.Helper()
	m, ok := v.(map[string]any)
	require.True(tb, ok, "%T is not a mapping", v)
	return m
}

func list(tb testing.TB, v any) []any {
	tb.Helper()
	l, ok := v.([]any)
	require.True(tb, ok, "%T is not a list", v)
	return l
}

func text(tb testing.TB, v any) string {
	tb.Helper()
	s, ok := v.(string)
	require.True(tb, ok, "%T is not a string", v)
	return s
}

// vectorPaths are the vectors of both Celery versions that match a pattern.
func vectorPaths(tb testing.TB, pattern string) []string {
	tb.Helper()
	var paths []string
	for _, dir := range []string{"vectors", "vectors/celery-5.2.6"} {
		found, err := filepath.Glob(filepath.Join("testdata", dir, pattern))
		require.NoError(tb, err)
		for _, path := range found {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), "testdata/"))
		}
	}
	require.NotEmpty(tb, paths)
	return paths
}

// fromPython turns the vectors' notation for Python's types, {"$py": name, ...},
// into wire values.
func fromPython(tb testing.TB, v any) any {
	tb.Helper()
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = fromPython(tb, item)
		}
		return out
	case map[string]any:
		if name, ok := v["$py"].(string); ok {
			return pythonValue(tb, name, v)
		}
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = fromPython(tb, item)
		}
		return out
	}
	return v
}

func pythonValue(tb testing.TB, name string, v map[string]any) any {
	tb.Helper()
	switch name {
	case "datetime":
		value, err := decodeDateTime(text(tb, v["iso"]))
		require.NoError(tb, err)
		return value
	case "date":
		d, _, err := parseISO(text(tb, v["iso"]), offsetSeconds)
		require.NoError(tb, err)
		return Date{d.Year(), d.Month(), d.Day()}
	case "time":
		return TimeOfDay(text(tb, v["iso"]))
	case "Decimal":
		return Decimal(text(tb, v["str"]))
	case "UUID":
		return uuid.MustParse(text(tb, v["str"]))
	case "bytes":
		return unbase64(tb, text(tb, v["base64"]))
	}
	require.Failf(tb, "unknown $py", "%s", name)
	return nil
}

// requireSame compares wire values through Repr, for which NaN is NaN, -0.0 is
// not 0.0 and 1 is not 1.0.
func requireSame(tb testing.TB, want, got any) {
	tb.Helper()
	require.Equal(tb, fullRepr(want), fullRepr(got))
}

// fullRepr is the JSON of a value: a text that tells all wire values apart.
func fullRepr(v any) string {
	out, err := EncodeJSON(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// requireText compares JSON byte by byte; order and spaces count.
func requireText(tb testing.TB, want, got string) {
	tb.Helper()
	require.Equal(tb, want, got)
}
