//go:build kubemq

package kubemq

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

// Against a KubeMQ server:
//
//	LOVAGE_KUBEMQ_ADDRESS=localhost:50000 go test -tags kubemq -run Real ./pkg/results/kubemq
func TestRealServer(t *testing.T) {
	t.Parallel()
	address := os.Getenv("LOVAGE_KUBEMQ_ADDRESS")
	require.NotEmpty(t, address, "LOVAGE_KUBEMQ_ADDRESS names the server to test against")
	for round := range 5 {
		t.Run(fmt.Sprint("NeverGoesBackwards", round), func(t *testing.T) {
			t.Parallel()
			neverGoesBackwards(t, address)
		})
	}
	t.Run("StoreFirst", func(t *testing.T) {
		t.Parallel()
		storesFirst(t, address, fmt.Sprint("first-", time.Now().UnixNano()))
	})
	t.Run("SuccessIsKept", func(t *testing.T) {
		t.Parallel()
		b, id := open(t, address, transport.Hooks{}), fmt.Sprint("kept-", time.Now().UnixNano())
		store(t, b, meta(id, protocol.StateSuccess), results.StoreOptions{})
		store(t, b, meta(id, protocol.StateFailure), results.StoreOptions{})
		require.Len(t, stored(t, b, id), 1)
		got, err := b.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, protocol.StateSuccess, got.Status)
		require.NoError(t, b.Forget(t.Context(), id))
		_, err = b.Fetch(t.Context(), id)
		require.ErrorIs(t, err, results.ErrNotFound)
	})
}
