package kubemq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Numbers of the server's error texts ("Error 135: ...").
const (
	codeQueueName    = 120
	codeSubscribe    = 121
	codeExpiration   = 133
	codeDelay        = 135
	codeNoAnswer     = 301
	codeNoConnection = 302
	codeShutdown     = 409
)

// ServerError is an answer of the server that says no.
type ServerError struct {
	// Code is the number in the text, 0 where it has none.
	Code int
	// Text is what the server said.
	Text string
}

// Error is the server's text.
func (e *ServerError) Error() string { return "kubemq: server: " + e.Text }

// Unwrap gives the transport's error of the same meaning, if there is one.
func (e *ServerError) Unwrap() error {
	switch {
	case e.Code == codeQueueName, e.Code == codeSubscribe, strings.Contains(e.Text, "stan: invalid publish request"):
		return transport.ErrName
	case e.Code == codeDelay:
		return transport.ErrDelay
	case e.Code == codeNoAnswer:
		return transport.ErrNoAnswer
	case strings.Contains(e.Text, "maximum payload exceeded"):
		return transport.ErrTooLarge
	}
	return nil
}

// temporary tells whether the same request may succeed in a moment: the server
// is going down, or has lost its own storage connection.
func (e *ServerError) temporary() bool {
	if e.Unwrap() != nil {
		return false
	}
	return e.Code == codeNoConnection || e.Code == codeShutdown ||
		strings.HasPrefix(e.Text, "stan: ") || strings.HasPrefix(e.Text, "nats: ")
}

func newServerError(text string) *ServerError {
	e := &ServerError{Text: text}
	if rest, found := strings.CutPrefix(text, "Error "); found {
		number, _, _ := strings.Cut(rest, ":")
		e.Code, _ = strconv.Atoi(number)
	}
	return e
}

func isServerError(err error, code int) bool {
	var server *ServerError
	return errors.As(err, &server) && server.Code == code
}

// Temporary tells whether the call that returned err may succeed when it is
// repeated: the connection failed, or the server was not ready.
func Temporary(err error) bool { return err != nil && !refused(err) }

// refused tells whether err is an answer that repeating the request won't change.
func refused(err error) bool {
	var server *ServerError
	if errors.As(err, &server) {
		return !server.temporary()
	}
	if errors.Is(err, transport.ErrTooLarge) || errors.Is(err, transport.ErrStopped) {
		return true
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// fromRPC turns what gRPC reports into this package's errors.
func fromRPC(err error) error {
	text := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.ResourceExhausted:
		if strings.Contains(text, "larger than max") {
			return fmt.Errorf("kubemq: %w: %s", transport.ErrTooLarge, text)
		}
	case codes.Internal:
		// Event calls report a refusal as a status with the text of an answer.
		if strings.HasPrefix(text, "Error ") {
			return newServerError(text)
		}
	case codes.DeadlineExceeded:
		// The caller's context ended, or one of ours: gRPC doesn't say so by errors.Is.
		return fmt.Errorf("kubemq: %w: %w", context.DeadlineExceeded, err)
	case codes.Canceled:
		return fmt.Errorf("kubemq: %w: %w", context.Canceled, err)
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("kubemq: the broker refuses the token: %w", err)
	default:
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("kubemq: %w", err)
}

// isDisconnect tells whether err says that the connection is gone, not only this
// call.
func isDisconnect(err error) bool {
	return status.Code(err) == codes.Unavailable || errors.Is(err, errSilent)
}
