//go:build kubemq

package worker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// TestRealServer is T-38 against a KubeMQ server, which counts no crash:
//
//	LOVAGE_KUBEMQ_ADDRESS=localhost:50000 go test -tags kubemq -run Real ./pkg/worker
func TestRealServer(t *testing.T) {
	t.Parallel()
	l := &live{address: os.Getenv("LOVAGE_KUBEMQ_ADDRESS")}
	require.NotEmpty(t, l.address, "LOVAGE_KUBEMQ_ADDRESS names the server to test against")
	var err error
	l.client, err = kubemq.NewClient(kubemq.Config{Address: l.address})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.client.Close()) })
	l.backend = l.results(t)
	before := l.depths(t)
	l.crashThrice(t, fmt.Sprint("crash.", time.Now().UnixNano()), false)
	for name := range l.depths(t) {
		require.False(t, before[name] == 0 && strings.HasPrefix(name, "lovage.attempts."), "notes are left in %s", name)
	}
}
