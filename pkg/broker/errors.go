package broker

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrStopped is what Start returns on a broker that was started or stopped
// before, and Err after a Stop.
var ErrStopped = errors.New("broker: stopped")

// ErrFormat is returned when the data directory was written in a format that
// this version does not know.
var ErrFormat = errors.New("broker: unknown store format")

// ErrDamaged is returned when the files of the store are not as they were written. The
// message names the file; docs/broker.md says what can be done.
var ErrDamaged = errors.New("broker: the store is damaged")

// Texts that clients know, word for word (docs/protocol.md). Queue calls carry
// them inside an answer, event and request calls as gRPC status Internal.
var (
	errClientID       = errors.New("Error 101: invalid clientID value, cannot be empty")
	errChannelEmpty   = errors.New("Error 102: invalid channel value, cannot be empty")
	errChannelWild    = errors.New("Error 107: invalid channel value, no wildcards are allowed")
	errChannelSpace   = errors.New("Error 108: invalid channel value, no white spaces are allowed")
	errMessageEmpty   = errors.New("Error 110: invalid message, cannot be empty")
	errStartType      = errors.New("Error 118: event store parameters were set but subscribe type is not event store")
	errChannelDot     = errors.New("Error 119: invalid channel value, cannot end with `.`")
	errQueueName      = errors.New("Error 120: invalid queue name value, cannot be empty, contains wildcards ,white spaces and end with dot")
	errMaxMessages    = errors.New("Error 122: max messages should be between 1 and max message setting in kubemq config  ")
	errExpiration     = errors.New("Error 133: invalid expiration seconds, exceed max expiration seconds setting in kubemq config")
	errReceiveCount   = errors.New("Error 134: invalid max received count, cannot be negative or exceed max receive count setting in kubemq config")
	errDelay          = errors.New("Error 135: invalid delay seconds, exceed max delay seconds setting in kubemq config")
	errWaitTimeout    = errors.New("Error 136: invalid wait timeout, value cannot be negative or exceed max wait timeout seconds setting in kubemq config")
	errSubscribeType  = errors.New("Error 207: invalid subscribe type")
	errPayloadTooBig  = errors.New("nats: maximum payload exceeded")
	errNoMessages     = errors.New("no messages to send")
	errBatchEmpty     = errors.New("empty messages batch")
	errUnknownRequest = errors.New("request unknown")
	errNoTransaction  = errors.New("transaction is completed or transaction id not found")
)

// Texts of settlements; the trailing space and "of of" are literal.
var (
	errAckClosed       = errors.New("cannot ack messages with closed response ")
	errNackClosed      = errors.New("cannot nack messages with closed response ")
	errRequeueClosed   = errors.New("cannot requeue messages with closed response ")
	errOffsetsClosed   = errors.New("cannot get active offsets with closed response ")
	errAckNoRange      = errors.New("cannot ack empty list of of offsets")     //nolint:dupword // the original's text
	errNackNoRange     = errors.New("cannot nack empty list of of offsets")    //nolint:dupword // the original's text
	errRequeueNoRange  = errors.New("cannot requeue empty list of of offsets") //nolint:dupword // the original's text
	errRequeueNoTarget = errors.New("cannot requeue messages with empty channel destination ")
)

// Texts of the access check.
const (
	textNoToken = "Authorization token is not supplied"
	textDenied  = "Error 421: authentication verification failed, invalid token"
)

// Errors of our own, for which the original has no text.
var errChannelLong = fmt.Errorf("broker: channel name is longer than %d bytes", maxNameBytes)

// limitError tells which bound of Config a request ran into.
type limitError struct {
	what  string
	limit int
}

func (e *limitError) Error() string {
	return fmt.Sprintf("broker: too many %s (limit %d)", e.what, e.limit)
}

// internal gives a text the form in which event and request calls fail.
func internal(err error) error {
	return status.Error(codes.Internal, err.Error())
}

// inside moves the refusal of a request into its answer, where queue calls carry
// it. An error that is a gRPC status already ends the call instead.
func inside(err error, isError *bool, text *string) error {
	if _, ends := status.FromError(err); ends {
		return err
	}
	*isError, *text = true, err.Error()
	return nil
}

// unsupported answers a call that this broker does not have.
func unsupported(what string) error {
	return status.Errorf(codes.Unimplemented, "broker: %s is not supported by the embedded broker", what)
}
