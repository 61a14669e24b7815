package kubemq

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConfigIsChecked is T-K5 too: never a maximum of receives without a queue for what
// reaches it, which the server would drop.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"host:port":         func(c *Config) { c.Address = "broker" },
		"max send -1":       func(c *Config) { c.MaxSend = -1 },
		"max receive -1":    func(c *Config) { c.MaxReceive = -1 },
		"connect timeout":   func(c *Config) { c.ConnectTimeout = -1 },
		"max delay 1ms":     func(c *Config) { c.MaxDelay = time.Millisecond },
		"max delay 1000000": func(c *Config) { c.MaxDelay = 1_000_000 * time.Hour },
		"retention -1s":     func(c *Config) { c.Retention = -time.Second },
		"go together":       func(c *Config) { c.MaxReceiveCount = 3 },
		"max receive queue": func(c *Config) { c.MaxReceiveQueue = "dead" },
		"0 and 1024":        func(c *Config) { c.MaxReceiveCount, c.MaxReceiveQueue = 1025, "dead" },
		"no characters":     func(c *Config) { c.MaxReceiveCount, c.MaxReceiveQueue = 1, "..." },
		"not one of auto":   func(c *Config) { c.Strategy = "lanes" },
		"CA certificate":    func(c *Config) { c.TLSFiles.CA = "missing.pem" },
		"both":              func(c *Config) { c.TLSFiles.Cert = "cert.pem" },
		"load the client":   func(c *Config) { c.TLSFiles.Cert, c.TLSFiles.Key = "cert.pem", "key.pem" },
	} {
		config := Config{Address: "broker:50000"}
		change(&config)
		_, err := New(config)
		require.ErrorContains(t, err, want)
		_, err = NewClient(config)
		require.ErrorContains(t, err, want)
	}
}

// TestATokenInTheAddressIsNotRepeated: somebody gave a URL.
func TestATokenInTheAddressIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"kubemq://:s3cret@broker:50000", "s3cret@broker:50000", "s3cret@broker"} {
		_, err := New(Config{Address: address})
		require.ErrorContains(t, err, "host:port")
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		given Config
		want  time.Duration
	}{
		{Config{}, DefaultKeepalive},
		{Config{Keepalive: 30 * time.Second}, DefaultKeepalive},
		{Config{Keepalive: 30 * time.Second, AllowFastKeepalive: true}, 30 * time.Second},
		{Config{AllowFastKeepalive: true}, DefaultKeepalive},
		{Config{Keepalive: time.Hour}, time.Hour},
		{Config{Keepalive: MinKeepalive}, MinKeepalive},
		{Config{Keepalive: -1}, -1},
	} {
		require.Equal(t, one.want, one.given.withDefaults().Keepalive)
	}
}
