package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

const (
	// headerTime and requestTime bound how long a client may take to ask, writeTime how
	// long to read the answer: a few that don't read would keep out all who want metrics.
	// Profiles add the time that they take.
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	writeTime   = 30 * time.Second
	// maxHeaderBytes bounds what a client may send.
	maxHeaderBytes = 16 << 10
)

var errNotConnected = errors.New("not connected to the broker")

// HealthConfig says what a Health answers.
type HealthConfig struct {
	// Address is the "host:port" to listen on.
	Address string
	// Ready is nil while the worker consumes, which is more than being connected;
	// else it says why it doesn't. It must return at once.
	Ready func() error
	// Metrics, if set, answers /metrics.
	Metrics http.Handler
	// RayServe, if set, answers /rayserve.
	RayServe http.Handler
	// Profiles turns the profiles of net/http/pprof on. They show names and stacks,
	// no values, and cost time while they are taken.
	Profiles bool
}

// Health answers over HTTP: GET /healthz while the process lives, GET /readyz while
// the worker consumes, for the probes of a container (/health and /ready are the
// same), GET /metrics and, where that is wanted, /rayserve and /debug/pprof/.
type Health struct {
	server   *http.Server
	listener net.Listener
	served   chan error
}

// StartHealth listens on config.Address.
func StartHealth(ctx context.Context, config HealthConfig) (*Health, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("observe: health endpoint on %q: %w", config.Address, err)
	}
	h := &Health{
		server: &http.Server{
			Handler: config.routes(), ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: writeTime,
			MaxHeaderBytes: maxHeaderBytes,
			ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // about clients that misbehave
		},
		listener: listener, served: make(chan error, 1),
	}
	go func() { h.served <- h.server.Serve(listener) }()
	return h, nil
}

func (c HealthConfig) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"GET /healthz", "GET /health"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") })
	}
	for _, path := range []string{"GET /readyz", "GET /ready"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := c.Ready(); err != nil {
				answer(w, http.StatusServiceUnavailable, "not consuming: "+err.Error())
				return
			}
			answer(w, http.StatusOK, "consuming")
		})
	}
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	if c.RayServe != nil {
		mux.Handle("GET /rayserve", c.RayServe)
	}
	if c.Profiles {
		// Without pprof's cmdline: a broker's URL with its token may stand there.
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	// A client that is gone doesn't need the answer.
	_, _ = fmt.Fprintln(w, text)
}

// Address is where the endpoint listens.
func (h *Health) Address() string { return h.listener.Addr().String() }

// Stop closes the endpoint and waits for it. When ctx ends first, requests that
// still run are cut off.
func (h *Health) Stop(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, h.server.Close())
	}
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
