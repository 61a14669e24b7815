package broker

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// access checks the token of calls. An empty token lets everybody in.
type access struct{ token string }

// tap checks it when the headers have come, before any message is read: without it
// anybody could make the broker hold requests of 100 MiB.
func (a access) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	return ctx, a.check(metadata.NewIncomingContext(ctx, info.Header), info.FullMethodName)
}

func (a access) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func (a access) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := a.check(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handler(server, stream)
}

// check wants the raw token, without "Bearer", in metadata "authorization".
// Ping is exempt, as with the original: clients send it without.
func (a access) check(ctx context.Context, method string) error {
	if a.token == "" || strings.HasSuffix(method, "/Ping") {
		return nil
	}
	tokens := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(tokens) == 0 || tokens[0] == "" {
		return status.Error(codes.Unauthenticated, textNoToken)
	}
	if !a.allows(tokens[0]) {
		return status.Error(codes.Unauthenticated, textDenied)
	}
	return nil
}

func (a access) allows(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 1
}

// request guards an HTTP handler. Besides the raw token it takes the "Bearer" form,
// the only one that Prometheus sends without extra settings.
func (a access) request(next http.HandlerFunc) http.HandlerFunc {
	if a.token == "" {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		token, _ := strings.CutPrefix(header, "Bearer ")
		switch {
		case header == "":
			writeJSON(w, http.StatusUnauthorized, httpAnswer{IsError: true, Message: textNoToken})
		case !a.allows(token):
			writeJSON(w, http.StatusUnauthorized, httpAnswer{IsError: true, Message: textDenied})
		default:
			next(w, r)
		}
	}
}
