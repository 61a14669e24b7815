package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
)

func TestWhatPebbleCallsFatalIsAnOrdinaryError(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/data/pebble/000012.sst", Err: syscall.ENOSPC}
	for name, breaks := range map[string]func(f *fault){
		"fatal":      func(f *fault) { pebbleLog{f}.Fatalf("MANIFEST sync failed: %v", full) },
		"background": func(f *fault) { f.listener().BackgroundError(full) },
		"panic":      func(*fault) { panic(full) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFault()
			require.False(t, f.protect(func() { breaks(f) }), "the call does not come back")
			require.ErrorIs(t, f.err, syscall.ENOSPC)
			require.ErrorContains(t, f.err, full.Error())
			f.raise(errors.New("later"))
			require.ErrorIs(t, f.err, syscall.ENOSPC, "the first one stays")
			s := &diskStore{fault: f, cancel: func() {}}
			require.ErrorIs(t, s.commit(nil), syscall.ENOSPC)
			require.NoError(t, s.close(), "a broken database is left alone")
		})
	}
}

func TestDamageNamesTheFile(t *testing.T) {
	err := describe(fmt.Errorf("read: %w", pebble.ErrCorruption))
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorIs(t, err, pebble.ErrCorruption)
	require.Equal(t, err, describe(err))
	require.NoError(t, describe(nil))
}
