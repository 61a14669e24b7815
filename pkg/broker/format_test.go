package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownStoreFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile), []byte("lovage broker store 2\n"), 0o600))
	b, err := New(Config{Listen: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	err = b.Start(t.Context())
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, `"lovage broker store 2"`)
	require.ErrorContains(t, err, storeFormat)
	require.NoError(t, b.Stop())
}

func TestADirectoryOfSomebodyElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	require.ErrorIs(t, prepareDir(dir), ErrFormat)
}

func TestAFreshVolumeAndAnInterruptedCreationAreAccepted(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile+newSuffix), []byte("lov"), 0o600))
	require.NoError(t, prepareDir(dir))
	require.NoError(t, prepareDir(dir), "the second time it is known")
	content, err := os.ReadFile(filepath.Join(dir, formatFile))
	require.NoError(t, err)
	require.Equal(t, storeFormat+"\n", string(content))
}
