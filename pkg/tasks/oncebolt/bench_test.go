package oncebolt_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkClaimAndDone is what Once costs a task: two transactions on disk.
func BenchmarkClaimAndDone(b *testing.B) {
	store := open(b, filepath.Join(b.TempDir(), "once.db"))
	for i := 0; b.Loop(); i++ {
		_, err := store.Claim(b.Context(), strconv.Itoa(i), "owner", time.Minute)
		require.NoError(b, err)
		require.NoError(b, store.Done(b.Context(), strconv.Itoa(i), []byte("1"), time.Hour))
	}
}
