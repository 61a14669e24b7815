package kubemq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Strategy is a way to take messages from a queue.
type Strategy string

const (
	// StrategyAuto probes the server at the start and takes StrategyDirect where
	// it is safe, else StrategySingle.
	StrategyAuto Strategy = "auto"
	// StrategyDirect asks for all free slots at once on one stream and settles
	// one by one. Servers that make a Get wait for its full number, or let an open
	// transaction take later messages, starve other workers with it.
	StrategyDirect Strategy = "direct"
	// StrategySingle asks for one message at a time, each on a stream of its own.
	StrategySingle Strategy = "single"
	// StrategyBatch asks for several messages and settles them together when the
	// last one is done. It is for many short tasks of the same length.
	StrategyBatch Strategy = "batch"
)

// Defaults and limits of Config.
const (
	DefaultPort = 50000
	// DefaultMaxMessage is the server's own limit for one gRPC message.
	DefaultMaxMessage = 100 << 20
	// DefaultMaxDelay is the longest delay that a server takes unless it is
	// configured otherwise.
	DefaultMaxDelay       = 43_200 * time.Second
	DefaultConnectTimeout = 5 * time.Second
	// MinKeepalive is how often servers let a client ping: one that pings more
	// often is disconnected.
	MinKeepalive     = 5 * time.Minute
	DefaultKeepalive = 6 * time.Minute
	// DefaultKeepaliveTimeout is that of KubeMQ's own clients.
	DefaultKeepaliveTimeout = 5 * time.Second
	// MaxReceiveCountLimit is the largest Config.MaxReceiveCount.
	MaxReceiveCountLimit = 1024
)

// maxInField is what fits into the messages' fields.
const maxInField = math.MaxInt32 * time.Second

// Config says how to reach a broker and how to use it.
type Config struct {
	// Address is "host:port".
	Address string
	// ClientID is the prefix of the ids this client goes by; "lovage" if empty.
	ClientID string
	// AuthToken goes with every call but Ping, as it is.
	AuthToken string
	// TLS, if set, encrypts the connection. Certificates of TLSFiles are added to
	// a copy of it.
	TLS *tls.Config
	// TLSFiles, if any is set, turn TLS on too.
	TLSFiles TLSFiles

	// MaxSend and MaxReceive bound one gRPC message in bytes; 0 means
	// DefaultMaxMessage.
	MaxSend, MaxReceive int
	// Keepalive is how often an idle connection is pinged; 0 means
	// DefaultKeepalive, and so does anything below MinKeepalive unless
	// AllowFastKeepalive is set. Negative turns pings off.
	Keepalive time.Duration
	// AllowFastKeepalive says that the server permits pings more often than
	// MinKeepalive.
	AllowFastKeepalive bool
	// KeepaliveTimeout is how long a connection may owe every answer before it is
	// given up and made anew; 0 means DefaultKeepaliveTimeout. It also bounds the
	// answer to a gRPC ping.
	KeepaliveTimeout time.Duration
	// ConnectTimeout bounds one attempt to connect; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// StartRetries is how often Start tries again after a first failure, Retries how
	// often a lost connection is tried to be made again before the transport gives
	// up (transport.ErrGaveUp, Hooks.GaveUp). 0 means for ever, negative not at all.
	StartRetries, Retries int

	// MaxDelay is the longest delay the server takes, in whole seconds; 0 means
	// DefaultMaxDelay. It is lowered when the server refuses one.
	MaxDelay time.Duration
	// Retention is how long the server keeps messages, 0 if that is not known. A
	// message whose delay comes within a tenth of it is refused (transport.ErrDelay),
	// because the server would remove it before it is due.
	Retention time.Duration
	// MaxReceiveCount and MaxReceiveQueue are the server's own dead-letter rule,
	// stamped on each message that is published: after so many nacks the server
	// moves it to the queue. Both or none; at most MaxReceiveCountLimit.
	MaxReceiveCount int
	MaxReceiveQueue string

	// CountsAttempts says that the server counts deliveries whose client vanished. KubeMQ
	// doesn't; the embedded broker can (broker.Config.CountCrashes).
	CountsAttempts bool

	// Strategy is how messages are taken; empty means StrategyAuto.
	Strategy Strategy
	// Hooks are told about connection loss and what was learnt of the server.
	Hooks transport.Hooks
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "lovage"
	}
	if c.MaxSend == 0 {
		c.MaxSend = DefaultMaxMessage
	}
	if c.MaxReceive == 0 {
		c.MaxReceive = DefaultMaxMessage
	}
	if c.Keepalive >= 0 && c.Keepalive < MinKeepalive && (c.Keepalive == 0 || !c.AllowFastKeepalive) {
		c.Keepalive = DefaultKeepalive
	}
	if c.KeepaliveTimeout == 0 {
		c.KeepaliveTimeout = DefaultKeepaliveTimeout
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = DefaultConnectTimeout
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = DefaultMaxDelay
	}
	if c.Strategy == "" {
		c.Strategy = StrategyAuto
	}
	return c
}

// validate reports every field that is out of its range.
func (c Config) validate() error {
	var problems []error
	refuse := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("kubemq: config: "+format, args...))
	}
	if _, _, err := net.SplitHostPort(c.Address); strings.Contains(c.Address, "@") {
		refuse("the address is not host:port: a token stands in it (ParseURL reads URLs)") // not to be repeated
	} else if err != nil {
		refuse("address %q is not host:port: %w", c.Address, err)
	}
	if c.MaxSend < 0 || c.MaxReceive < 0 {
		refuse("max send %d or max receive %d is negative", c.MaxSend, c.MaxReceive)
	}
	if c.ConnectTimeout < 0 || c.KeepaliveTimeout < 0 {
		refuse("connect timeout %s or keepalive timeout %s is negative", c.ConnectTimeout, c.KeepaliveTimeout)
	}
	if c.MaxDelay < time.Second || c.MaxDelay > maxInField {
		refuse("max delay %s is not between 1s and %s", c.MaxDelay, maxInField)
	}
	if c.Retention < 0 {
		refuse("retention %s is negative", c.Retention)
	}
	if c.MaxReceiveCount < 0 || c.MaxReceiveCount > MaxReceiveCountLimit {
		refuse("max receive count %d is not between 0 and %d", c.MaxReceiveCount, MaxReceiveCountLimit)
	}
	// A count without a queue makes the server drop the message in silence.
	if (c.MaxReceiveCount > 0) != (c.MaxReceiveQueue != "") {
		refuse("max receive count %d and max receive queue %q go together", c.MaxReceiveCount, c.MaxReceiveQueue)
	}
	if c.MaxReceiveQueue != "" {
		if _, err := ChannelName(c.MaxReceiveQueue); err != nil {
			refuse("max receive queue: %w", err)
		}
	}
	switch c.Strategy {
	case StrategyAuto, StrategyDirect, StrategySingle, StrategyBatch:
	default:
		refuse("strategy %q is not one of auto, direct, single, batch", c.Strategy)
	}
	return errors.Join(problems...)
}
