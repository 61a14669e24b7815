package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAccept(t *testing.T) {
	for _, names := range [][]string{nil, {}, {"json"}, {"application/json"}} {
		accept, err := NewAccept(names)
		require.NoError(t, err)
		require.True(t, accept.Allows(ContentTypeJSON))
		require.False(t, accept.Allows(ContentTypeYAML))
	}
	require.True(t, Accept{}.Allows(ContentTypeJSON))
	accept, err := NewAccept([]string{"yaml", "application/x-mine"})
	require.NoError(t, err)
	for contentType, want := range map[string]bool{
		ContentTypeJSON: false, ContentTypeYAML: true, "application/x-mine": true, "text/plain": false,
		"": true, "application/data": true, "application/text": true,
	} {
		require.Equal(t, want, accept.Allows(contentType), contentType)
	}
	_, err = NewAccept([]string{"json", "jsom"})
	require.ErrorContains(t, err, `"jsom"`)
}

func TestPickleIsNeverDecoded(t *testing.T) {
	_, err := Deserialize([]byte("\x80\x04N."), ContentTypePickle, "binary", acceptAll(t), DefaultLimits())
	require.EqualError(t, err, "Refusing to deserialize content of type pickle (application/x-python-serialize): it is never decoded here")
	_, _, _, err = Serialize("pickle", 1)
	var encodeError *EncodeError
	require.ErrorAs(t, err, &encodeError)
}

func TestPlainData(t *testing.T) {
	accept, err := NewAccept([]string{"application/x-mine"})
	require.NoError(t, err)
	for _, c := range []struct {
		encoding string
		want     any
	}{{"", "é"}, {"UTF-8", "é"}, {"us-ascii", "é"}, {"binary", []byte("é")}, {"ascii-8bit", []byte("é")}} {
		for _, contentType := range []string{"", "application/data", "application/x-mine"} {
			got, err := Deserialize([]byte("é"), contentType, c.encoding, accept, DefaultLimits())
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		}
	}
	for body, encoding := range map[string]string{"\xff": "utf-8", "x": "latin-7"} {
		_, err := Deserialize([]byte(body), "", encoding, accept, DefaultLimits())
		var decodeError *DecodeError
		require.ErrorAs(t, err, &decodeError)
	}
	got, err := Deserialize(nil, ContentTypeJSON, "utf-8", Accept{}, DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, []byte{}, got)

	limits := DefaultLimits()
	limits.Body = 3
	_, err = Deserialize([]byte("1234"), ContentTypeJSON, "utf-8", Accept{}, limits)
	requireTooLong(t, err)
}

func TestParseTimeOtherTypes(t *testing.T) {
	zone := time.FixedZone("", 3600)
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, zone)
	got, err := ParseTime(at)
	require.NoError(t, err)
	require.Equal(t, at, got)
	got, err = ParseTime(NaiveDateTime{at})
	require.NoError(t, err)
	require.Equal(t, at, got)
	for _, v := range []any{nil, true, int64(5), 1.5, []any{}, Date{2020, 1, 1}, []byte("2020-01-01")} {
		_, err := ParseTime(v)
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid)
	}
}

func TestFormatTime(t *testing.T) {
	for want, at := range map[string]time.Time{
		"2020-01-02T03:04:05+00:00":        time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC),
		"2020-01-02T03:04:05.000001+00:00": time.Date(2020, 1, 2, 3, 4, 5, 1999, time.UTC),
		"2020-01-02T03:04:05.100000-05:30": time.Date(2020, 1, 2, 3, 4, 5, 100_000_000, time.FixedZone("", -(5*3600+30*60))),
		"0001-01-01T00:00:00+00:00":        {},
		"2020-01-02T03:04:05+00:53:28":     time.Date(2020, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3208)),
	} {
		require.Equal(t, want, FormatTime(at))
	}
}

// TestReprGoValues shows values that are not wire values.
func TestReprGoValues(t *testing.T) {
	for want, v := range map[string]any{
		"[1, 2]": []int{1, 2}, "{'a': 1}": struct{ A int }{1}, "1.5": 1500 * time.Millisecond, "<chan int>": make(chan int), "5": 5,
		"'25:00'": TimeOfDay("25:00"), "[]": []any(nil), "datetime.time(3, 4, tzinfo=datetime.timezone.utc)": TimeOfDay("03:04Z"),
	} {
		require.Equal(t, want, Repr(v, 0))
	}
	require.Equal(t, "()", ReprArgs(nil))
	require.Equal(t, "([1],)", ReprArgs([]any{[]int{1}}))
}
