package broker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/stretchr/testify/require"
)

// writeManifest writes records as Pebble does and returns their ends.
func writeManifest(tb testing.TB, path string, sizes ...int) (ends []int64) {
	tb.Helper()
	file, err := os.Create(path)
	require.NoError(tb, err)
	w := record.NewWriter(file)
	for i, size := range sizes {
		_, err := w.WriteRecord(slices.Repeat([]byte{byte(i + 1)}, size))
		require.NoError(tb, err)
		require.NoError(tb, w.Flush())
		ends = append(ends, w.Size())
	}
	require.NoError(tb, file.Close())
	return ends
}

func TestAManifestThatACrashCutOffIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "MANIFEST")
	ends := writeManifest(t, path, 200, 100, 40_000)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, checkManifest(path))
	for end := ends[1]; end < ends[2]; end += 499 {
		require.NoError(t, os.WriteFile(path, whole[:end], 0o600))
		require.NoError(t, checkManifest(path), "cut at %d", end)
	}
	require.NoError(t, os.WriteFile(path, append(whole[:ends[1]], make([]byte, 50)...), 0o600))
	require.NoError(t, checkManifest(path), "grown, but not written")
}

func TestAManifestThatWasChangedIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "MANIFEST")
	ends := writeManifest(t, path, 200, 100, 300)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, change := range map[string]func(content []byte) []byte{
		"empty":                    func(content []byte) []byte { return content[:0] },
		"the first record cut off": func(content []byte) []byte { return content[:ends[0]-1] },
		"a byte of the last one":   func(content []byte) []byte { content[ends[2]-1]++; return content },
		"a length":                 func(content []byte) []byte { content[ends[0]+5] ^= 0x40; return content },
		"a position":               func(content []byte) []byte { content[ends[0]+6] = 9; return content },
		"something behind it":      func(content []byte) []byte { return append(content, "not a record at all"...) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, change(slices.Clone(whole)), 0o600))
			err := checkManifest(path)
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, path)
		})
	}
}

func FuzzCheckManifest(f *testing.F) {
	path := filepath.Join(f.TempDir(), "MANIFEST")
	writeManifest(f, path, 20, 30)
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:50])
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "MANIFEST")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		if err := checkManifest(path); err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
	})
}
