package protocol

import (
	"bytes"
	"compress/bzip2"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	bzip2enc "github.com/dsnet/compress/bzip2"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// codec is one of kombu's compression methods.
type codec struct {
	mime       string
	aliases    []string
	compress   func(out io.Writer) (io.WriteCloser, error)
	decompress func(body []byte, limit int) ([]byte, error)
}

// codecOf finds a method by its MIME type or an alias.
func codecOf(name string) (codec, bool) {
	for _, c := range [...]codec{
		// kombu writes a zlib stream under the name of gzip.
		{"application/x-gzip", []string{"gzip", "zlib"}, zlibWriter, unzlib},
		{"application/x-bz2", []string{"bzip2", "bzip"}, bzip2Writer, unbzip2},
		{"application/x-lzma", []string{"lzma", "xz"}, xzWriter, unxz},
		{"application/x-brotli", []string{"brotli"}, brotliWriter, unbrotli},
		{"application/zstd", []string{"zstd", "zstandard"}, zstdWriter, unzstd},
	} {
		if c.mime == name || slices.Contains(c.aliases, name) {
			return c, true
		}
	}
	return codec{}, false
}

// Compress compresses a body by the method of that name (gzip, zlib, bzip2,
// bzip, lzma, xz, brotli, zstd, zstandard) or MIME type. It returns the MIME type
// too, which goes into the header "compression". It returns an *EncodeError for
// an unknown name.
func Compress(name string, body []byte) (compressed []byte, mime string, err error) {
	c, ok := codecOf(name)
	if !ok {
		return nil, "", encodeErrorf("unknown compression %q", name)
	}
	var out bytes.Buffer
	w, err := c.compress(&out)
	if err != nil {
		return nil, "", encodeErrorf("%s: %w", c.mime, err)
	}
	if _, err := w.Write(body); err != nil {
		return nil, "", encodeErrorf("%s: %w", c.mime, err)
	}
	if err := w.Close(); err != nil {
		return nil, "", encodeErrorf("%s: %w", c.mime, err)
	}
	return out.Bytes(), c.mime, nil
}

// Decompress undoes Compress; name is the value of the header "compression", by
// kombu's custom a MIME type. No more than limit bytes come out, and not much
// more memory is used on the way, whatever the body claims. It returns a
// *DecodeError, which wraps a *LimitError where there would be more.
func Decompress(name string, body []byte, limit int) ([]byte, error) {
	c, ok := codecOf(name)
	if !ok {
		return nil, &DecodeError{What: "body", Err: fmt.Errorf("unknown compression %q", cut(name))}
	}
	if len(body) == 0 {
		return nil, &DecodeError{What: c.mime, Err: io.ErrUnexpectedEOF}
	}
	out, err := c.decompress(body, limit)
	if err != nil {
		return nil, &DecodeError{What: c.mime, Err: err}
	}
	return out, nil
}

func errTooLong(limit int) error { return &LimitError{What: "bytes of body", Limit: limit} }

// readAll reads up to limit bytes and fails if there are more.
func readAll(r io.Reader, limit int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(out) > limit {
		return nil, errTooLong(limit)
	}
	return out, nil
}

func zlibWriter(out io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(out), nil }

func unzlib(body []byte, limit int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out, err := readAll(r, limit)
	return out, errors.Join(err, r.Close())
}

func bzip2Writer(out io.Writer) (io.WriteCloser, error) {
	return bzip2enc.NewWriter(out, &bzip2enc.WriterConfig{Level: bzip2enc.BestCompression})
}

func unbzip2(body []byte, limit int) ([]byte, error) {
	return readAll(bzip2.NewReader(bytes.NewReader(body)), limit)
}

func xzWriter(out io.Writer) (io.WriteCloser, error) {
	// Small against Python's 8 MiB: it is allocated for each message, whatever its
	// size.
	return xz.WriterConfig{DictCap: 1 << 20}.NewWriter(out)
}

func brotliWriter(out io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(out), nil }

func unbrotli(body []byte, limit int) ([]byte, error) {
	return readAll(brotli.NewReader(bytes.NewReader(body)), limit)
}

// zstdWriter starts no goroutines, as a concurrency of one asks for.
func zstdWriter(out io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
}

func unzstd(body []byte, limit int) ([]byte, error) {
	// The limit on memory is one on the window as well, which may be larger than
	// what comes out; 8 MiB is what every decoder has to support. Both are checked
	// before anything is allocated.
	const window = 8 << 20
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(limit, window))))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	out, err := d.DecodeAll(body, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(out) > limit {
		return nil, errTooLong(limit)
	}
	return out, err
}
