package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sentryArrivals() map[string]arrival {
	return map[string]arrival{
		"sentry.dsn":         {"sentry: {dsn: http://k@h/1}", func(s *Settings) any { return s.Sentry.DSN.Reveal() }, "http://k@h/1"},
		"sentry.environment": {"sentry: {environment: e}", func(s *Settings) any { return s.Sentry.Environment }, "e"},
		"sentry.release":     {"sentry: {release: r}", func(s *Settings) any { return s.Sentry.Release }, "r"},
		"sentry.sample_rate": {"sentry: {sample_rate: 0}", func(s *Settings) any { return s.Sentry.SampleRate }, 0.0},
		"sentry.traces_sample_rate": {"sentry: {traces_sample_rate: 0.5}",
			func(s *Settings) any { return []any{s.Sentry.Traces, s.Sentry.TracesSampleRate} }, []any{true, 0.5}},
		"sentry.send_args":          {"sentry: {send_args: true}", func(s *Settings) any { return s.Sentry.SendArgs }, true},
		"sentry.ignore_errors":      {"sentry: {ignore_errors: [ValueError]}", func(s *Settings) any { return s.Sentry.IgnoreErrors }, []string{"ValueError"}},
		"sentry.ignore_max_retries": {"sentry: {ignore_max_retries: true}", func(s *Settings) any { return s.Sentry.IgnoreMaxRetries }, true},
		"sentry.shutdown_timeout":   {"sentry: {shutdown_timeout: 5s}", func(s *Settings) any { return s.Sentry.ShutdownTimeout }, 5 * time.Second},
	}
}

// Every Sentry SDK reads these variables, so the worker does too.
func TestSentryVariables(t *testing.T) {
	settings, warnings, err := load(Source{Environ: []string{
		"SENTRY_DSN=https://k@h/2", "SENTRY_ENVIRONMENT=live", "SENTRY_RELEASE=shop@2", "SENTRY_TRACE=1",
	}}, []byte("sentry: {dsn: https://k@h/1, environment: file}"))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, "https://k@h/2", settings.Sentry.DSN.Reveal())
	require.Equal(t, "live", settings.Sentry.Environment)
	require.Equal(t, "shop@2", settings.Sentry.Release)
}
