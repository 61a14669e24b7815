package transporttest

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy passes TCP connections on, and can do to them what networks do.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	accepted int
	passages map[*passage]struct{}
	// thawed is closed while bytes pass.
	thawed chan struct{}
}

// NewProxy listens on a free port of the loopback interface until the test ends.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{target: target, listener: listener, passages: make(map[*passage]struct{}), thawed: make(chan struct{})}
	close(p.thawed)
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

// Open is how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.passages)
}

// Cut ends every connection in good order (FIN). New ones are passed on as before.
func (p *Proxy) Cut() { p.each((*passage).end) }

// Reset ends every connection with an error (RST). New ones are passed on.
func (p *Proxy) Reset() {
	p.each(func(one *passage) {
		_ = one.client.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // the listener's network is tcp
		one.end()
	})
}

// Vanish lets the target go without telling the clients: their connections stay
// open, what they send is taken, and nothing ever comes back. New ones are passed
// on.
func (p *Proxy) Vanish() { p.each((*passage).vanish) }

// Freeze is a black hole: nothing passes, in connections that there are and in new
// ones, until Thaw. No byte is lost.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
		p.thawed = make(chan struct{})
	default:
	}
}

// Thaw ends Freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed
}

func (p *Proxy) each(do func(*passage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.passages {
		do(one)
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
		one := &passage{proxy: p, client: conn, ended: make(chan struct{})}
		p.mu.Lock()
		p.accepted++
		p.passages[one] = struct{}{}
		late := p.closed
		p.mu.Unlock()
		if late {
			one.end()
		}
		p.running.Go(one.pass)
	}
}

// passage is one connection that is passed on.
type passage struct {
	proxy  *Proxy
	client net.Conn
	ended  chan struct{}
	once   sync.Once

	mu       sync.Mutex
	target   net.Conn // nil before it is connected to
	vanished bool
}

// pass copies both ways until either side ends.
func (c *passage) pass() {
	defer func() {
		c.end()
		c.proxy.mu.Lock()
		delete(c.proxy.passages, c)
		c.proxy.mu.Unlock()
	}()
	target := c.connect()
	if target == nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.copy(target, c.client) })
	both.Go(func() {
		c.copy(c.client, target)
		// The target's end is the client's, unless it was to stay silent.
		if !c.silent() {
			c.end()
		}
	})
	both.Wait()
}

// connect is nil where there is nobody to pass the connection on to.
func (c *passage) connect() net.Conn {
	if !c.wait() {
		return nil
	}
	var dialer net.Dialer
	target, err := dialer.Dial("tcp", c.proxy.target)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = target
	select {
	case <-c.ended:
		_ = target.Close() // too late
	default:
	}
	return target
}

// copy passes bytes on, when the gate is open.
func (c *passage) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !c.silent() {
			if !c.wait() {
				return
			}
			_, _ = to.Write(buffer[:n]) // an end shows at the next read
		}
		if err != nil {
			if from == c.client {
				c.end()
			}
			return
		}
	}
}

// wait is false when the passage ends before the gate opens.
func (c *passage) wait() bool {
	select {
	case <-c.proxy.gate():
		return true
	case <-c.ended:
		return false
	}
}

func (c *passage) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vanished
}

func (c *passage) vanish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vanished = true
	if c.target != nil {
		_ = c.target.Close() // the server notices, the client doesn't
	}
}

func (c *passage) end() {
	c.once.Do(func() {
		close(c.ended)
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.client.Close() // the peer notices all the same
		if c.target != nil {
			_ = c.target.Close() // the same
		}
	})
}
