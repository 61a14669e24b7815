package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Health answers GET /health while the process lives and GET /ready while the
// worker consumes; a container's probes ask for them.
type Health struct {
	server   *http.Server
	listener net.Listener
	served   chan error
}

// StartHealth listens on address. ready tells whether the worker consumes: not
// merely whether it is connected.
func StartHealth(ctx context.Context, address string, ready func() bool) (*Health, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("observe: health endpoint on %q: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, true, "alive") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if ready() {
			answer(w, true, "consuming")
			return
		}
		answer(w, false, "not consuming")
	})
	h := &Health{
		server:   &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		listener: listener, served: make(chan error, 1),
	}
	go func() { h.served <- h.server.Serve(listener) }()
	return h, nil
}

func answer(w http.ResponseWriter, ok bool, text string) {
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A client that is gone doesn't need the answer.
	_, _ = fmt.Fprintln(w, text)
}

// Address is where the endpoint listens.
func (h *Health) Address() string { return h.listener.Addr().String() }

// Stop closes the endpoint and waits for it.
func (h *Health) Stop(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
