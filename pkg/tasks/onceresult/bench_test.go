package onceresult_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
)

// BenchmarkClaimAndDone is what Once costs a task on the embedded broker.
func BenchmarkClaimAndDone(b *testing.B) {
	store := onceresult.New(startBackend(b))
	for i := 0; b.Loop(); i++ {
		state, err := store.Claim(b.Context(), strconv.Itoa(i), "owner", time.Minute)
		require.NoError(b, err)
		require.True(b, state.Claimed)
		require.NoError(b, store.Done(b.Context(), strconv.Itoa(i), []byte("1"), time.Hour))
	}
}
