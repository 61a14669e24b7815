package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRetriesOfConnecting: broker_connection_retry holds at the start too where
// broker_connection_retry_on_startup is not set, as in Celery.
func TestRetriesOfConnecting(t *testing.T) {
	for text, want := range map[string][2]int{
		"":                                    {0, 0},
		"broker_connection_retry: false":      {-1, -1},
		"broker_connection_max_retries: 5":    {5, 5},
		"broker_connection_max_retries: 0":    {0, 0},
		"broker_connection_max_retries: null": {0, 0},
		"broker_connection_retry: false\nbroker_connection_retry_on_startup: true": {0, -1},
		"broker_connection_retry_on_startup: false":                                {-1, 0},
		"broker_connection_retry_on_startup: no\nbroker_connection_max_retries: 3": {-1, 3},
	} {
		settings := mustLoad(t, text)
		require.Equal(t, want, [2]int{settings.Broker.Consume.StartRetries, settings.Broker.Consume.Retries}, text)
	}
}

func TestOpenProfilesDrawAWarning(t *testing.T) {
	for listen, want := range map[string]int{"127.0.0.1:8080": 0, ":8080": 1} {
		_, warnings, err := loadText(t, "health: {pprof: true, listen: '"+listen+"'}")
		require.NoError(t, err)
		require.Len(t, warnings, want, listen)
	}
}
