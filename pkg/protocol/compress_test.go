package protocol

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// codecNames are kombu's aliases by MIME type.
var codecNames = map[string][]string{
	"application/x-gzip":   {"gzip", "zlib"},
	"application/x-bz2":    {"bzip2", "bzip"},
	"application/x-lzma":   {"lzma", "xz"},
	"application/x-brotli": {"brotli"},
	"application/zstd":     {"zstd", "zstandard"},
}

func TestCompressRoundTrip(t *testing.T) {
	random := make([]byte, 10_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	check := func(name, mime string, body []byte) {
		compressed, gotMime, err := Compress(name, body)
		require.NoError(t, err)
		require.Equal(t, mime, gotMime)
		got, err := Decompress(name, compressed, len(body))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(body, got), name)
	}
	for mime, names := range codecNames {
		for _, body := range [][]byte{{}, []byte(strings.Repeat("[[2, 3], {}, {}]", 1000)), random} {
			check(mime, mime, body)
		}
		for _, name := range names {
			check(name, mime, []byte("a"))
		}
	}
	_, _, err := Compress("rar", nil)
	var encodeError *EncodeError
	require.ErrorAs(t, err, &encodeError)
}

// TestDecompressBombs: a kilobyte that holds 1 GiB of zeros is refused at the
// limit, and so are less dense ones; none needs memory to speak of.
func TestDecompressBombs(t *testing.T) {
	const limit = 1 << 18
	bombs := map[string][]byte{}
	for _, c := range pythonCases(t, "bombs.json") {
		bombs[c.Mime] = unbase64(t, c.Data)
		require.Equal(t, 1<<30, c.Size)
		require.Less(t, len(bombs[c.Mime]), 2048)
	}
	for _, mime := range []string{"application/x-gzip", "application/zstd", "application/x-lzma"} {
		bombs[mime] = compressZeros(t, mime, 3<<20)
	}
	require.Len(t, bombs, len(codecNames))
	for mime, bomb := range bombs {
		before := allocated()
		_, err := Decompress(mime, bomb, limit)
		requireTooLong(t, err)
		require.Less(t, allocated()-before, uint64(64<<20), mime)
	}
}

func compressZeros(t *testing.T, mime string, size int64) []byte {
	t.Helper()
	c, ok := codecOf(mime)
	require.True(t, ok)
	var out bytes.Buffer
	w, err := c.compress(&out)
	require.NoError(t, err)
	_, err = io.CopyN(w, zeros{}, size)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// allocated is the sum of all allocations so far.
func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

func requireTooLong(t *testing.T, err error) {
	t.Helper()
	var decodeError *DecodeError
	var limit *LimitError
	require.ErrorAs(t, err, &decodeError)
	require.ErrorAs(t, err, &limit)
}

func TestDecompressLimit(t *testing.T) {
	body := []byte(strings.Repeat("0123456789", 100))
	for mime := range codecNames {
		compressed, _, err := Compress(mime, body)
		require.NoError(t, err)
		_, err = Decompress(mime, compressed, len(body)-1)
		requireTooLong(t, err)
	}
}

// TestDecompressDamaged cuts and changes what Python compressed: it is refused,
// or, where a format has no check that covers the change, gives no more than the
// limit.
func TestDecompressDamaged(t *testing.T) {
	for _, c := range pythonCases(t, "compression.json") {
		data := unbase64(t, c.Data)
		if len(data) > 400 {
			continue
		}
		for i := 0; i < len(data); i += 1 + len(data)/40 {
			_, err := Decompress(c.Mime, data[:i], c.Size)
			var decodeError *DecodeError
			require.ErrorAs(t, err, &decodeError, "%s cut to %d of %d", c.Mime, i, len(data))
			changed := bytes.Clone(data)
			changed[i] ^= 0x55
			out, err := Decompress(c.Mime, changed, c.Size)
			require.True(t, err != nil || len(out) <= c.Size)
		}
	}
	_, err := Decompress("application/x-nope", nil, 1)
	require.ErrorContains(t, err, `unknown compression "application/x-nope"`)
}

// TestXZ checks what the container may hold.
func TestXZ(t *testing.T) {
	one, _, err := Compress("xz", []byte("one"))
	require.NoError(t, err)

	_, err = Decompress("xz", append(bytes.Clone(one), one...), 100)
	require.ErrorContains(t, err, "more than one stream")

	for i, want := range map[int]string{0: "not an xz stream", 6: "not an xz stream", 7: "unknown check", 13: "header of an xz block is damaged"} {
		changed := bytes.Clone(one)
		changed[i] ^= 0x40
		_, err = Decompress("xz", changed, 100)
		require.ErrorContains(t, err, want)
	}
	delta := bytes.Clone(one)
	delta[13] |= 1 // two filters
	binary.LittleEndian.PutUint32(delta[20:], crc32.ChecksumIEEE(delta[12:20]))
	_, err = Decompress("xz", delta, 100)
	require.ErrorContains(t, err, "filter other than LZMA2")

	// A dictionary of 4 GiB in the header costs nothing.
	huge := bytes.Clone(one)
	require.Equal(t, []byte{0x21, 0x01}, huge[14:16])
	huge[16] = 40
	binary.LittleEndian.PutUint32(huge[20:], crc32.ChecksumIEEE(huge[12:20]))
	before := allocated()
	got, err := Decompress("xz", huge, 100)
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
	require.Less(t, allocated()-before, uint64(1<<20))
}
