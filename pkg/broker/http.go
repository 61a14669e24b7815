package broker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	// headerTime and requestTime bound how long a client may take to send.
	headerTime  = 5 * time.Second
	requestTime = 30 * time.Second
	// answerTime bounds a request as a whole, the wait for the disk included.
	answerTime = time.Minute
	// maxHeaderBytes and maxHTTPBody bound a request. The HTTP side is for tools
	// and small messages; anything up to Config.MaxMessageBytes goes over gRPC.
	maxHeaderBytes = 16 << 10
	maxHTTPBody    = 8 << 20
	// closeTime is what running requests get when the broker stops.
	closeTime = time.Second
)

// web is the HTTP side: what tools and guides use of KubeMQ's, and metrics.
type web struct {
	listener net.Listener
	handler  http.Handler
}

// listenWeb is nil if config has no HTTP side.
func listenWeb(ctx context.Context, config Config, s *service) (*web, error) {
	if config.HTTPListen == "" {
		return nil, nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.HTTPListen)
	if err != nil {
		return nil, fmt.Errorf("broker: listen for HTTP on %s: %w", config.HTTPListen, err)
	}
	if config.TLS != nil {
		listener = tls.NewListener(listener, config.TLS)
	}
	// A web page that somebody looks at on this machine can reach what listens on
	// loopback; it must not be able to send tasks.
	protection := http.NewCrossOriginProtection()
	return &web{listener: listener, handler: protection.Handler(routes(config, s))}, nil
}

func routes(config Config, s *service) http.Handler {
	auth := access{token: config.AuthToken}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.httpHealth)
	mux.HandleFunc("GET /ready", s.httpReady)
	mux.HandleFunc("GET /ping", s.httpPing)
	mux.HandleFunc("GET /queue/info", auth.request(s.httpQueueInfo))
	mux.HandleFunc("POST /queue/send", auth.request(s.httpQueueSend))
	mux.HandleFunc("GET /metrics", auth.request(metricsHandler(s.queues).ServeHTTP))
	return mux
}

// serve answers until ctx ends, and waits for what runs then.
func (w *web) serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           w.handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      answerTime,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // about clients that misbehave
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if server.Shutdown(patience) != nil {
			_ = server.Close() // requests that still run end with their connection
		}
	})
	err := server.Serve(w.listener)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// httpAnswer is KubeMQ's form of every answer but those of health checks.
type httpAnswer struct {
	IsError bool   `json:"is_error"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// answerHTTP writes data, or an error, which KubeMQ answers with status 200 too.
func answerHTTP(w http.ResponseWriter, data any, err error) {
	answer := httpAnswer{Message: "OK", Data: data}
	if err != nil {
		answer = httpAnswer{IsError: true, Message: err.Error()}
	}
	writeJSON(w, http.StatusOK, answer)
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a client that is gone needs no answer
}

// httpHealth tells that the process lives.
func (s *service) httpHealth(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprint(w, "healthy") // a client that is gone needs no answer
}

// httpReady tells whether sends are taken: not after the store has failed.
func (s *service) httpReady(w http.ResponseWriter, _ *http.Request) {
	code, ready := http.StatusOK, s.queues.journal.failure() == nil
	if !ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, map[string]bool{"is_healthy": true, "is_ready": ready})
}

func (s *service) httpPing(w http.ResponseWriter, r *http.Request) {
	answer, err := s.Ping(r.Context(), &pb.Empty{})
	answerHTTP(w, answer, err)
}

func (s *service) httpQueueInfo(w http.ResponseWriter, r *http.Request) {
	answer, err := s.QueuesInfo(r.Context(), &pb.QueuesInfoRequest{QueueName: r.URL.Query().Get("queue")})
	answerHTTP(w, answer, err)
}

// httpQueueSend takes one message, its body in base64.
func (s *service) httpQueueSend(w http.ResponseWriter, r *http.Request) {
	message := &pb.QueueMessage{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHTTPBody)).Decode(message); err != nil {
		answerHTTP(w, nil, fmt.Errorf("broker: read the message: %w", err))
		return
	}
	result, err := s.SendQueueMessage(r.Context(), message)
	if err == nil && result.IsError {
		err = errors.New(result.Error)
	}
	answerHTTP(w, result, err)
}
