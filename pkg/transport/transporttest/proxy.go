package transporttest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy passes TCP connections on, and can cut them.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	accepted int
	conns    map[net.Conn]struct{}
}

// NewProxy listens on a free port of the loopback interface until the test ends.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{target: target, listener: listener, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is "host:port" to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted is how many connections there have been.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Cut ends every connection. New ones are passed on as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close() // the peer notices all the same
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close() // ends accept
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		p.mu.Unlock()
		p.running.Go(func() { p.pass(conn) })
	}
}

// pass copies both ways until either side ends.
func (p *Proxy) pass(conn net.Conn) {
	var dialer net.Dialer
	target, err := dialer.Dial("tcp", p.target)
	if err != nil {
		_ = conn.Close() // there is nobody to pass it on to
		return
	}
	if !p.keep(conn, target) {
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{conn, target}, {target, conn}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // an end is an end
			_ = conn.Close()
			_ = target.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.conns, conn)
	delete(p.conns, target)
	p.mu.Unlock()
}

// keep notes connections so that they can be cut; false, and closed, after close.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed {
			_ = conn.Close() // too late
			continue
		}
		p.conns[conn] = struct{}{}
	}
	return !p.closed
}
