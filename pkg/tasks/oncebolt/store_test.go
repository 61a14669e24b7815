package oncebolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/oncebolt"
	"github.com/lovage-project/lovage/pkg/tasks/oncetest"
)

func open(tb testing.TB, path string) *oncebolt.Store {
	tb.Helper()
	store, err := oncebolt.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, store.Close()) })
	return store
}

func TestStore(t *testing.T) {
	for _, c := range oncetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "once.db")
			synctest.Test(t, func(t *testing.T) { c.Run(t, open(t, path)) })
		})
	}
}

// TestRestart: claims and results are there when the file is opened again.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	store, err := oncebolt.Open(path)
	require.NoError(t, err)
	_, err = store.Claim(t.Context(), "claimed", "a", time.Hour)
	require.NoError(t, err)
	require.NoError(t, store.Done(t.Context(), "done", []byte("1"), time.Hour))
	require.NoError(t, store.Close())
	require.NoError(t, store.Close(), "it can be closed twice")
	_, err = store.Claim(t.Context(), "claimed", "a", time.Hour)
	require.ErrorIs(t, err, bbolterrors.ErrDatabaseNotOpen)
	require.ErrorContains(t, err, `oncebolt: claim "claimed"`)

	again := open(t, path)
	for key, want := range map[string]tasks.OnceState{
		"claimed": {}, "done": {Done: true, Result: []byte("1")}, "new": {Claimed: true},
	} {
		state, err := again.Claim(t.Context(), key, "b", time.Hour)
		require.NoError(t, err)
		require.Equal(t, want, state, key)
	}
}

// TestFileOfAnotherProcess: the file is free until the first call, is waited for, and
// can be had once the other has closed it.
func TestFileOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	other, err := oncebolt.Open(path)
	require.NoError(t, err)
	store := open(t, path)
	_, err = other.Claim(t.Context(), "k", "a", time.Hour)
	require.NoError(t, err)

	_, err = store.Claim(t.Context(), "k", "b", time.Hour)
	require.ErrorContains(t, err, `oncebolt: claim "k": open `+path)
	require.ErrorIs(t, err, bbolterrors.ErrTimeout)
	require.NoError(t, other.Close())
	var state tasks.OnceState
	require.Eventually(t, func() bool {
		state, err = store.Claim(t.Context(), "k", "b", time.Hour)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, state.Claimed, "what the other has written holds")
}

func TestDirectoryThatIsNotThere(t *testing.T) {
	directory := t.TempDir()
	_, err := oncebolt.Open(filepath.Join(directory, "missing", "once.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "file"), nil, 0o600))
	_, err = oncebolt.Open(filepath.Join(directory, "file", "once.db"))
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

func TestDamagedEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	open(t, filepath.Join(t.TempDir(), "other.db"))
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("once"))
		return errors.Join(err, b.Put([]byte("k"), []byte("{")))
	}))
	require.NoError(t, db.Close())
	_, err = open(t, path).Claim(t.Context(), "k", "a", time.Hour)
	require.ErrorContains(t, err, `oncebolt: claim "k": an entry can't be read`)
}

// TestFileStaysSmall: what is over is removed by the claims that follow.
func TestFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := oncebolt.Open(path)
		require.NoError(t, err)
		claim := func(i int) {
			_, err := store.Claim(t.Context(), strconv.Itoa(i), "a", time.Minute)
			require.NoError(t, err)
		}
		for i := range 50 {
			claim(i)
		}
		<-time.After(time.Hour)
		for i := range 50 {
			claim(1000 + i)
		}
		require.NoError(t, store.Close())
	})
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		require.LessOrEqual(t, tx.Bucket([]byte("once")).Stats().KeyN, 60)
		return nil
	}))
	require.NoError(t, db.Close())
}
