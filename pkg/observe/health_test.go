package observe

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asker asks a Health over connections that don't outlive a request.
func asker(t *testing.T, health *Health) func(path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(path string) (int, string) {
		t.Helper()
		response, err := client.Get("http://" + health.Address() + path)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
}

func TestHealth(t *testing.T) {
	var reason atomic.Pointer[error]
	why := errors.New("stalled")
	reason.Store(&why)
	health, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0", Ready: func() error { return *reason.Load() }})
	require.NoError(t, err)
	ask := asker(t, health)
	for _, suffix := range []string{"", "z"} {
		code, text := ask("/health" + suffix)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "alive\n", text)
		code, text = ask("/ready" + suffix)
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Equal(t, "not consuming: stalled\n", text)
	}
	var well error
	reason.Store(&well)
	for _, suffix := range []string{"", "z"} {
		code, text := ask("/ready" + suffix)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "consuming\n", text)
	}
	for _, path := range []string{"/other", "/metrics", "/debug/pprof/"} {
		code, _ := ask(path)
		require.Equal(t, http.StatusNotFound, code, "%s is off", path)
	}
	require.NoError(t, health.Stop(t.Context()))
}

func TestHealthWithProfiles(t *testing.T) {
	health, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0", Profiles: true})
	require.NoError(t, err)
	ask := asker(t, health)
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "TestHealthWithProfiles"} {
		code, text := ask(path)
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, text, want)
	}
	code, text := ask("/debug/pprof/cmdline")
	require.Equal(t, http.StatusNotFound, code, "secrets may stand there")
	require.NotContains(t, text, os.Args[0])
	code, _ = ask("/debug/pprof/trace?seconds=0.01")
	require.Equal(t, http.StatusOK, code, "no timeout is in its way")
	require.NoError(t, health.Stop(t.Context()))
}

// TestHealthBoundsItsClients: one that neither asks nor reads holds nothing for long.
func TestHealthBoundsItsClients(t *testing.T) {
	health, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	for _, timeout := range []time.Duration{health.server.ReadHeaderTimeout, health.server.ReadTimeout, health.server.WriteTimeout} {
		require.Positive(t, timeout)
	}
	require.NoError(t, health.Stop(t.Context()))
}

func TestHealthOnATakenAddress(t *testing.T) {
	first, err := StartHealth(t.Context(), HealthConfig{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	_, err = StartHealth(t.Context(), HealthConfig{Address: first.Address()})
	require.ErrorContains(t, err, first.Address())
	require.NoError(t, first.Stop(t.Context()))
}
