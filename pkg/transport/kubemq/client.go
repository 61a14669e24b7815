package kubemq

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/internal/kubemqwire"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// maxReconnectWait caps gRPC's own wait between two attempts to connect, which
	// comes on top of the link's (link.go).
	maxReconnectWait = time.Second
	// maxPing is how long a ping may take before the connection counts as lost, though
	// it is not given up before Config.KeepaliveTimeout.
	maxPing = 5 * time.Second
)

// Client is one connection to a broker with the calls this module needs. It
// connects on first use and again whenever needed.
type Client struct {
	conn  *grpc.ClientConn
	rpc   pb.KubemqClient
	id    string
	token string
	// timeout bounds a ping that has to connect first, pingTime one that has not.
	timeout, pingTime time.Duration
	closed            atomic.Bool
	// gathered are messages that will share a request.
	gathered *gathered
	// lost, if set, is told about calls that failed because of the connection,
	// overdue when an answer is late, note what an operator should know.
	lost    func(error)
	overdue func()
	note    func(format string, args ...any)
}

// NewClient checks config and prepares a connection; it doesn't wait for it.
func NewClient(config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return newClient(config)
}

func newClient(config Config) (*Client, error) {
	secret := insecure.NewCredentials()
	tlsConfig, err := config.tlsConfig()
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		secret = credentials.NewTLS(tlsConfig)
	}
	line := newLine(secret, config.KeepaliveTimeout)
	// gRPC sets the timeout as TCP_USER_TIMEOUT too, so that on Linux a machine that
	// vanished is noticed that soon after anything was sent to it.
	pings := keepalive.ClientParameters{Time: config.Keepalive, Timeout: config.KeepaliveTimeout}
	if config.Keepalive < 0 {
		pings.Time = math.MaxInt64
	}
	pings.PermitWithoutStream = config.AllowFastKeepalive
	conn, err := grpc.NewClient("passthrough:///"+config.Address,
		grpc.WithTransportCredentials(line),
		grpc.WithChainUnaryInterceptor(line.unary),
		grpc.WithKeepaliveParams(pings),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectWait,
			},
			MinConnectTimeout: config.ConnectTimeout,
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(kubemqwire.Codec{}),
			grpc.MaxCallSendMsgSize(config.MaxSend), grpc.MaxCallRecvMsgSize(config.MaxReceive)),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("kubemq: broker address %q: %w", config.Address, err)
	}
	c := &Client{
		conn: conn, rpc: pb.NewKubemqClient(conn), id: clientID(config.ClientID),
		token: config.AuthToken, timeout: config.ConnectTimeout, pingTime: min(config.KeepaliveTimeout, maxPing),
	}
	c.gathered = &gathered{client: c}
	return c, nil
}

// clientID is unique per connection, which some servers need of subscribers.
func clientID(prefix string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return prefix + "-" + host + "-" + rand.Text()[:8]
}

// call adds the token. The server wants it as it is, without a scheme.
func (c *Client) call(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", c.token)
}

// failed turns the error of a call into this package's and reports a lost
// connection.
func (c *Client) failed(err error) error {
	if c.closed.Load() {
		return fmt.Errorf("kubemq: %w", transport.ErrStopped)
	}
	switch {
	case c.lost != nil && isDisconnect(err):
		c.lost(err)
	case status.Code(err) == codes.DeadlineExceeded:
		c.suspect()
	}
	return fromRPC(err)
}

// suspect says that an answer is late.
func (c *Client) suspect() {
	if c.overdue != nil {
		c.overdue()
	}
}

// Connect returns once the broker answers. It tries, with capped and jittered
// waits, until ctx ends; retrying, if set, is called after each failure.
func (c *Client) Connect(ctx context.Context, retrying func(err error, attempt int, wait time.Duration)) error {
	_, err := connect(ctx, c.ping, 0, transport.Hooks{Retrying: retrying})
	return err
}

// ping asks once, without a token, which servers don't want for it. It is how the
// link finds out that the broker is back, and so doesn't report to it.
func (c *Client) ping(ctx context.Context) error {
	timeout := c.timeout
	if c.conn.GetState() == connectivity.Ready {
		timeout = c.pingTime
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := c.rpc.Ping(ctx, &pb.Empty{})
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return fmt.Errorf("kubemq: %w", transport.ErrStopped)
	}
	return fromRPC(err)
}

// dropped waits until a connection that stood has gone.
func (c *Client) dropped(ctx context.Context) bool {
	for {
		state := c.conn.GetState()
		if !c.conn.WaitForStateChange(ctx, state) {
			return false
		}
		if state == connectivity.Ready {
			return true
		}
	}
}

// Close closes the connection; calls in flight fail. It is idempotent.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	err := c.conn.Close()
	c.gathered.stop()
	if err != nil {
		return fmt.Errorf("kubemq: close the connection: %w", err)
	}
	return nil
}
