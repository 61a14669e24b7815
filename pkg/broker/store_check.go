package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkEngine looks for the kinds of damage that Pebble takes for something
// harmless and makes worse: it removes the files it does not know of.
func checkEngine(path string) error {
	found, err := pebble.Peek(path, vfs.Default)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, describe(err))
	}
	if !found.Exists {
		return checkEmpty(path)
	}
	if err := checkManifest(found.ManifestFilename); err != nil {
		return describeOpen(err)
	}
	return checkOptions(found.OptionsFilename)
}

// checkOptions names the file, which Pebble does not do.
func checkOptions(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // Pebble found it in the operator's directory
	if err != nil {
		return fmt.Errorf("read the options: %w", err)
	}
	var options pebble.Options
	later := &pebble.ParseHooks{SkipUnknown: func(string, string) bool { return true }}
	if err := options.Parse(string(text), later); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return nil
}

// checkEmpty: without the marker of the manifest Pebble starts a new database, and
// there must be nothing of an old one.
func checkEmpty(path string) error {
	for _, pattern := range []string{"*.sst", "*.log"} {
		left, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if len(left) > 0 {
			return fmt.Errorf("%w: %s has no file marker.manifest.* but %s", ErrDamaged, path, filepath.Base(left[0]))
		}
	}
	return nil
}

// checkManifest reads the list of files, which Pebble believes up to the first
// record that does not fit. A crash may have cut off the last one; what is behind
// it, or there in full, was damaged.
func checkManifest(path string) error {
	file, err := os.Open(path) //nolint:gosec // Pebble found it in the operator's directory
	if err != nil {
		return fmt.Errorf("open the manifest: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	reader := record.NewReader(file, 0)
	for {
		good := reader.Offset()
		edit, err := reader.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, edit)
		}
		switch {
		case errors.Is(err, io.EOF) && good > 0: // never empty: it is synced before its marker is
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %s is empty", ErrDamaged, path)
		case record.IsInvalidRecord(err):
			return checkTail(file, good)
		case err != nil:
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// The frame of a record in a manifest: blocks of 32 KiB with chunks, each a checksum
// (4 bytes), a length (2) and the position of the chunk in its record, 1 to 4.
const (
	manifestBlock  = 32 << 10
	manifestHeader = 7
	// longestTail bounds what a crash can have left of a record: what is appended
	// to a manifest lists a few files.
	longestTail = 2 * manifestBlock
)

// checkTail decides whether the rest of a manifest is a record that was cut off.
func checkTail(file *os.File, offset int64) error {
	rest, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<30))
	if err != nil {
		return fmt.Errorf("read %s: %w", file.Name(), err)
	}
	zeros := len(bytes.Trim(rest, "\x00")) == 0
	if offset > 0 && (zeros || len(rest) <= longestTail && cutOff(rest, offset)) {
		return nil
	}
	return fmt.Errorf("%w: %s at byte %d of %d", ErrDamaged, file.Name(), offset, offset+int64(len(rest)))
}

// cutOff reports whether the file ends before the record that begins rest, and
// holds no good chunk behind that.
func cutOff(rest []byte, offset int64) bool {
	for at := 0; ; {
		if left := manifestBlock - (offset+int64(at))%manifestBlock; left < manifestHeader {
			at += int(left) // too short for a header, filled with zeros
		}
		if at+manifestHeader > len(rest) {
			return true
		}
		end := at + manifestHeader + int(binary.LittleEndian.Uint16(rest[at+4:]))
		position := rest[at+6]
		if position < 1 || position > 4 {
			return false
		}
		if end > len(rest) {
			return !goodChunkIn(rest[at+1:])
		}
		if position == 1 || position == 4 { // the only chunk, or the last one
			return false
		}
		at = end
	}
}

// goodChunkIn looks for a chunk at any place.
func goodChunkIn(data []byte) bool {
	for ; len(data) >= manifestHeader; data = data[1:] {
		end := manifestHeader + int(binary.LittleEndian.Uint16(data[4:]))
		if position := data[6]; position < 1 || position > 4 || end > len(data) {
			continue
		}
		sum := crc32.Checksum(data[6:end], castagnoli)
		// Pebble turns the sum, so that sums of sums are not special.
		if binary.LittleEndian.Uint32(data) == (sum>>15|sum<<17)+0xa282ead8 {
			return true
		}
	}
	return false
}
