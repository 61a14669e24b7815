package oncebolt_test

import (
	"errors"
	"path/filepath"
	"strconv"
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

func TestFileOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	open(t, path)
	_, err := oncebolt.Open(path)
	require.ErrorContains(t, err, "oncebolt: open "+path)
	require.ErrorIs(t, err, bbolterrors.ErrTimeout)
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
