package protocol

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The files read here hold what Python does with each input; testdata/generate.py
// wrote them.

// pythonCase is one line of such a file. Which fields a file has is up to it.
type pythonCase struct {
	// Data and Text are the input, Want is Python's answer; null is an error.
	Data string  `json:"data"`
	Text string  `json:"text"`
	Want *string `json:"want"`
	// Value is in the JSON of kombu, the other fields say how to show it.
	Value string `json:"value"`
	Limit int    `json:"limit"`
	Hex   bool   `json:"hex"`
	Args  bool   `json:"args"`
	// Mime, Size and CRC32 describe a compressed body.
	Mime  string `json:"mime"`
	Size  int    `json:"size"`
	CRC32 uint32 `json:"crc32"`
}

func pythonCases(tb testing.TB, name string) []pythonCase {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(tb, err)
	var file struct {
		Cases []pythonCase `json:"cases"`
	}
	require.NoError(tb, json.Unmarshal(data, &file))
	require.NotEmpty(tb, file.Cases)
	return file.Cases
}

func unbase64(tb testing.TB, text string) []byte {
	tb.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(tb, err)
	return data
}

// checkDecoder compares a decoder with Python's: both refuse, or what Go writes
// of the value in JSON is byte for byte what Python writes.
// The documents in lenient are refused by Python only.
func checkDecoder(t *testing.T, file string, decode func([]byte) (any, error), lenient ...string) {
	t.Helper()
	refused := 0
	for _, c := range pythonCases(t, file) {
		data := unbase64(t, c.Data)
		v, err := decode(data)
		if c.Want == nil {
			refused++
			if slices.Contains(lenient, string(data)) {
				require.NoError(t, err, "%q is not refused", data)
				continue
			}
			var decodeError *DecodeError
			require.ErrorAs(t, err, &decodeError, "%q decodes to %v, Python refuses it", data, v)
			continue
		}
		require.NoError(t, err, "%q, which Python reads as %s", data, *c.Want)
		encoded, err := EncodeJSON(v)
		require.NoError(t, err)
		require.Equal(t, *c.Want, string(encoded), "%q", data)
	}
	t.Logf("%d of the cases are refused", refused)
}

func TestDecodeJSONAsPython(t *testing.T) {
	checkDecoder(t, "json.json", func(data []byte) (any, error) { return DecodeJSON(data, DefaultLimits()) })
}

func TestDecodeYAMLAsPython(t *testing.T) {
	checkDecoder(t, "yaml.json", func(data []byte) (any, error) { return decodeYAML(data, DefaultLimits()) },
		"a\tb")
}

func TestDecodeMsgpackAsPython(t *testing.T) {
	checkDecoder(t, "msgpack.json", func(data []byte) (any, error) { return decodeMsgpack(data, DefaultLimits()) })
}

func TestParseTimeAsPython(t *testing.T) {
	for _, c := range pythonCases(t, "times.json") {
		got, err := ParseTime(c.Text)
		if c.Want == nil {
			var invalid *InvalidTaskError
			require.ErrorAs(t, err, &invalid, "%q is %s, Python refuses it", c.Text, got)
			continue
		}
		require.NoError(t, err, "%q, which Python reads as %s", c.Text, *c.Want)
		if *c.Want == "0001-01-01T00:00:00+00:00" {
			require.False(t, got.IsZero())
			got = got.Truncate(time.Second)
		}
		require.Equal(t, *c.Want, FormatTime(got), "%q", c.Text)
	}
}

func TestReprAsCelery(t *testing.T) {
	for _, c := range pythonCases(t, "repr.json") {
		v, err := DecodeJSON([]byte(c.Value), DefaultLimits())
		require.NoError(t, err)
		want := *c.Want
		if c.Hex {
			raw, err := hex.DecodeString(want)
			require.NoError(t, err)
			want = string(raw)
		}
		if c.Args {
			require.Equal(t, want, ReprArgs(v.([]any)), "%s", c.Value)
			continue
		}
		require.Equal(t, want, Repr(v, c.Limit), "limit %d of %s", c.Limit, c.Value)
	}
}

func TestDecompressPython(t *testing.T) {
	for _, c := range pythonCases(t, "compression.json") {
		body, err := Decompress(c.Mime, unbase64(t, c.Data), max(c.Size, 1))
		require.NoError(t, err, c.Mime)
		require.Len(t, body, c.Size)
		require.Equal(t, c.CRC32, crc32.ChecksumIEEE(body))
	}
}
