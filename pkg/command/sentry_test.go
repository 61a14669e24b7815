package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/getsentry/sentry-go"
	"github.com/stretchr/testify/require"
)

// sentryEnvelopes is a server that hands on what the SDK sends.
func sentryEnvelopes(t *testing.T, answer int) (dsn string, envelopes <-chan string) {
	t.Helper()
	received := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(request.Body)
		w.WriteHeader(answer)
		received <- body.String()
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "://", "://hush@", 1) + "/1", received
}

// TestSentry: the whole program reports a failure, with what the settings and
// WithSentry say, and shows the DSN nowhere.
func TestSentry(t *testing.T) {
	dsn, envelopes := sentryEnvelopes(t, http.StatusOK)
	t.Setenv("SENTRY_DSN", dsn)
	t.Setenv("SENTRY_ENVIRONMENT", "staging")
	s := startServiceWith(t, registry(nil), []Option{WithSentry(func(o *sentry.ClientOptions) {
		o.BeforeSend = func(event *sentry.Event, _ *sentry.EventHint) *sentry.Event {
			event.Tags["team"] = "payments"
			return event
		}
	})}, "-l", "debug", "--", "sentry.traces_sample_rate=1")
	code, _, _ := run(t, "call", "--config", s.file, "test.fail")
	require.Equal(t, exitFailure, code)
	event, transaction := <-envelopes, <-envelopes
	if strings.Contains(event, `"type":"transaction"`) {
		event, transaction = transaction, event
	}
	require.Contains(t, event, `"type":"ValueError"`)
	require.Contains(t, event, `"value":"no good"`)
	require.Contains(t, event, `"environment":"staging"`)
	require.Contains(t, event, `"release":"lovage@dev"`)
	require.Contains(t, event, `"team":"payments"`)
	require.Contains(t, transaction, `"op":"queue.process"`)

	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
	require.NotContains(t, s.log.String(), "hush")
	require.NotContains(t, s.log.String(), "did not take everything")
}

func TestSentryThatTakesNothingIsToldAtTheEnd(t *testing.T) {
	dsn, envelopes := sentryEnvelopes(t, http.StatusForbidden)
	s := startService(t, registry(nil), "--", "sentry.dsn="+dsn)
	code, _, _ := run(t, "call", "--config", s.file, "test.fail")
	require.Equal(t, exitFailure, code)
	<-envelopes
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode(), "that is no failure of the worker")
	require.Contains(t, s.log.String(), "Sentry did not take everything: requests that failed: 1")
	require.NotContains(t, s.log.String(), "hush")
}

func TestBadDSN(t *testing.T) {
	file := t.TempDir() + "/celery.yaml"
	require.NoError(t, os.WriteFile(file, []byte("broker: embedded\nembedded_broker: {data_dir: \"\"}\nsentry: {dsn: \"http://hush@\"}"), 0o600))
	for _, args := range [][]string{{"check", "--config", file}, {"--config", file}} {
		code, _, errOut := run(t, args...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, "DSN")
		require.NotContains(t, errOut, "hush")
	}
}

func TestSampleRateOfZeroReportsNothing(t *testing.T) {
	dsn, envelopes := sentryEnvelopes(t, http.StatusOK)
	s := startService(t, registry(nil), "--", "sentry.dsn="+dsn, "sentry.sample_rate=0")
	for range 5 {
		code, _, _ := run(t, "call", "--config", s.file, "test.fail")
		require.Equal(t, exitFailure, code)
	}
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
	for len(envelopes) > 0 { // client reports, at most
		require.NotContains(t, <-envelopes, `"type":"event"`)
	}
}
