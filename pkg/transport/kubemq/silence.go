package kubemq

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

const (
	// suspectAfter is how late an answer is when the connection is looked at: a ping
	// is answered at once by a server that is only slow with queues.
	suspectAfter = 2 * time.Second
	// timerSlack is how much sooner than its time a call may come back.
	timerSlack = 100 * time.Millisecond
)

// line is the socket of a Client, and what is owed on it. A peer that vanished
// without a word, or a proxy in between that lost it, leaves a connection that
// looks well for ever: TCP goes on confirming what the proxy's machine takes, and
// gRPC's own pings are too rare to help, because servers forbid more
// (docs/protocol.md §8.4). So calls that get no answer count, and a line that was
// silent for Config.KeepaliveTimeout is hung up. gRPC connects anew then.
type line struct {
	credentials.TransportCredentials
	patience time.Duration
	state    *lineState
}

type lineState struct {
	mu     sync.Mutex
	socket net.Conn
	// heard is when the last answer came, since when the oldest call was sent that
	// has had none after that; zero if there is no such call.
	heard, since time.Time
}

func newLine(secret credentials.TransportCredentials, patience time.Duration) *line {
	return &line{TransportCredentials: secret, patience: patience, state: &lineState{}}
}

// ClientHandshake is where gRPC shows the socket of a new connection.
func (l *line) ClientHandshake(ctx context.Context, authority string, socket net.Conn) (net.Conn, credentials.AuthInfo, error) {
	l.state.mu.Lock()
	l.state.socket = socket
	l.state.mu.Unlock()
	l.answered()
	return l.TransportCredentials.ClientHandshake(ctx, authority, socket)
}

// Clone is the same line.
func (l *line) Clone() credentials.TransportCredentials {
	return &line{TransportCredentials: l.TransportCredentials.Clone(), patience: l.patience, state: l.state}
}

// answered notes that the peer is there.
func (l *line) answered() {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.heard, l.state.since = time.Now(), time.Time{}
}

// unanswered notes that a call had no answer in its time, and hangs up when nothing
// was heard for too long.
func (l *line) unanswered(sent time.Time) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	if l.state.socket == nil || sent.Before(l.state.heard) {
		return
	}
	if l.state.since.IsZero() || sent.Before(l.state.since) {
		l.state.since = sent
	}
	if time.Since(l.state.since) < l.patience-timerSlack {
		return
	}
	_ = l.state.socket.Close() // gRPC's reader reports it
	l.state.socket = nil
}

// unary watches a call with one answer.
func (l *line) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	sent := time.Now()
	err := invoke(ctx, method, request, reply, conn, options...)
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled: // says nothing about the peer
	case codes.DeadlineExceeded:
		l.unanswered(sent)
	default:
		l.answered()
	}
	return err
}

// stream watches what comes on a stream. Who waits for it knows when it is owed.
func (l *line) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return &heardStream{ClientStream: s, line: l}, nil
}

type heardStream struct {
	grpc.ClientStream
	line *line
}

// RecvMsg is grpc.ClientStream's.
func (s *heardStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil {
		s.line.answered()
	}
	return err
}
