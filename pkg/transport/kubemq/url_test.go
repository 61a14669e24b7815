package kubemq

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		address, token string
		tls            bool
	}{
		"kubemq://":                              {"localhost:50000", "", false},
		"kubemq://broker":                        {"broker:50000", "", false},
		"kubemq://broker:1234/vhost":             {"broker:1234", "", false},
		"kubemq://:se%2Fcr%40et@broker":          {"broker:50000", "se/cr@et", false},
		"kubemq://token@broker":                  {"broker:50000", "token", false},
		"kubemq://user:token@broker":             {"broker:50000", "token", false},
		"kubemq://user:@broker":                  {"broker:50000", "user", false},
		"kubemq+tls://:a.b-c_d@[2001:db8::1]:99": {"[2001:db8::1]:99", "a.b-c_d", true},
		"kubemq+tls://[::1]":                     {"[::1]:50000", "", true},
	} {
		config, err := ParseURL(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want.address, config.Address, raw)
		require.Equal(t, want.token, config.AuthToken, raw)
		require.Equal(t, want.tls, config.TLS != nil, raw)
	}
	for _, raw := range []string{
		"", "redis://secret@h", "kubemq:secret", "kubemq://:secret@h:0", "kubemq://:secret@h:65536", "kubemq://:secret@h:x",
		"kubemq://:secret@h?ssl=1", "kubemq://:secret@h#x", "kubemq://:secret@[::1", "kubemq://:secret%zz@h", "kubemq://:sec ret\x00@h",
	} {
		_, err := ParseURL(raw)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "secret", "an error must not tell the token")
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("kubemq://:token@[::1]:50000/x")
	f.Add("kubemq+tls://a%20b@h")
	f.Add("kubemq://]0")
	f.Fuzz(func(t *testing.T, raw string) {
		config, err := ParseURL(raw)
		if err != nil {
			return
		}
		require.True(t, strings.HasPrefix(strings.ToLower(raw), "kubemq"))
		config = config.withDefaults()
		require.NoError(t, config.validate(), raw)
	})
}
