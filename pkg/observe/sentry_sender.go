package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/getsentry/sentry-go"
)

// SentryUnsentError says that Sentry did not get all reports.
type SentryUnsentError struct {
	// Failed is how many requests the server refused or never answered.
	Failed int64
	// TimedOut tells that reports were still waiting when the end came, after
	// Timeout.
	TimedOut bool
	Timeout  time.Duration
}

// Error tells how many and why.
func (e *SentryUnsentError) Error() string {
	text := "observe: Sentry did not take everything"
	if e.Failed > 0 {
		text += fmt.Sprintf(": requests that failed: %d", e.Failed)
	}
	if e.TimedOut {
		text += fmt.Sprintf(": some were still waiting after %v", e.Timeout)
	}
	return text
}

// sentrySender sends the SDK's requests. It counts those that fail, which the SDK
// tells nobody, and can be ended while a server hangs: the SDK would wait for it 30
// seconds.
type sentrySender struct {
	next    http.RoundTripper
	failed  atomic.Int64
	context context.Context //nolint:containedctx // ends all requests at once
	cancel  context.CancelFunc
}

// newSentrySender puts itself into the client's options, unless they name an HTTP
// client or a transport of the SDK's own.
func newSentrySender(options *sentry.ClientOptions) *sentrySender {
	sender := &sentrySender{next: options.HTTPTransport}
	sender.context, sender.cancel = context.WithCancel(context.Background())
	if options.HTTPClient != nil || options.Transport != nil {
		return sender
	}
	if sender.next == nil {
		sender.next = &http.Transport{
			Proxy: proxyOf(options), TLSClientConfig: &tls.Config{RootCAs: options.CaCerts, MinVersion: tls.VersionTLS12},
		}
	}
	options.HTTPTransport = sender
	return sender
}

// closeIdle closes the connections that wait for a next request.
func (s *sentrySender) closeIdle() {
	if idle, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// proxyOf is what the SDK would do, which takes the options for a proxy only with
// its own transport.
func proxyOf(options *sentry.ClientOptions) func(*http.Request) (*url.URL, error) {
	for _, proxy := range []string{options.HTTPSProxy, options.HTTPProxy} {
		if address, err := url.Parse(proxy); proxy != "" && err == nil {
			return http.ProxyURL(address)
		}
	}
	return http.ProxyFromEnvironment
}

// RoundTrip sends one request.
func (s *sentrySender) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	stop := context.AfterFunc(s.context, cancel) //nolint:contextcheck // the second context that ends it
	release := func() { stop(); cancel() }
	response, err := s.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		release()
		s.failed.Add(1)
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		s.failed.Add(1)
	}
	response.Body = &releasingBody{ReadCloser: response.Body, release: release}
	return response, nil
}

// releasingBody gives a request's context free once the answer is read.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Close closes the body.
func (b *releasingBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
