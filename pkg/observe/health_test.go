package observe

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealth(t *testing.T) {
	var ready atomic.Bool
	health, err := StartHealth(t.Context(), "127.0.0.1:0", ready.Load)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string) (int, string) {
		response, err := client.Get("http://" + health.Address() + path)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	code, _ := ask("/health")
	require.Equal(t, http.StatusOK, code)
	code, text := ask("/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "not consuming\n", text)
	ready.Store(true)
	code, _ = ask("/ready")
	require.Equal(t, http.StatusOK, code)
	code, _ = ask("/other")
	require.Equal(t, http.StatusNotFound, code)
	require.NoError(t, health.Stop(t.Context()))
}

func TestHealthOnATakenAddress(t *testing.T) {
	first, err := StartHealth(t.Context(), "127.0.0.1:0", func() bool { return true })
	require.NoError(t, err)
	_, err = StartHealth(t.Context(), first.Address(), func() bool { return true })
	require.ErrorContains(t, err, first.Address())
	require.NoError(t, first.Stop(t.Context()))
}
