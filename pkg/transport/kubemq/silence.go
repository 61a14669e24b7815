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
// silent for Config.KeepaliveTimeout is hung up. gRPC connects anew then. It has no
// call for that; its credentials are where it shows its sockets.
type line struct {
	credentials.TransportCredentials
	patience time.Duration
	state    *lineState
}

type lineState struct {
	mu     sync.Mutex
	socket net.Conn
	// heard is when something came last, since when the oldest call was sent that has
	// had no answer after that; zero if there is no such call.
	heard, since time.Time
}

// heard is a socket that tells the line when something comes. A part of a large
// answer counts: who sends it is there.
type heard struct {
	net.Conn
	line *line
}

// Read is net.Conn's.
func (h heard) Read(into []byte) (int, error) {
	n, err := h.Conn.Read(into)
	if n > 0 {
		h.line.answered()
	}
	return n, err
}

func newLine(secret credentials.TransportCredentials, patience time.Duration) *line {
	return &line{TransportCredentials: secret, patience: patience, state: &lineState{}}
}

// ClientHandshake is where gRPC shows the socket of a new connection.
func (l *line) ClientHandshake(ctx context.Context, authority string, socket net.Conn) (net.Conn, credentials.AuthInfo, error) {
	l.state.mu.Lock()
	l.state.socket = socket
	l.state.mu.Unlock()
	l.answered() // what is owed on an earlier connection is not owed on this one
	return l.TransportCredentials.ClientHandshake(ctx, authority, heard{socket, l})
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

// unary watches a call with one answer. Who waits on a stream pings.
func (l *line) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	sent := time.Now()
	err := invoke(ctx, method, request, reply, conn, options...)
	if status.Code(err) == codes.DeadlineExceeded {
		l.unanswered(sent)
	}
	return err
}
