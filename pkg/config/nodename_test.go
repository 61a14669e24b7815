package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected names are what Celery's host_format(default_nodename(pattern))
// gives.
func TestNodeName(t *testing.T) {
	for _, tt := range []struct{ pattern, dotted, short string }{
		{"", "celery@george.example.com", "celery@george"},
		{"w1@%h", "w1@george.example.com", "w1@george"},
		{"w1@%n", "w1@george", "w1@george"},
		{"w1@%d", "w1@example.com", "w1@"},
		{"w1", "celery@w1", "celery@w1"},
		{"%n@%h", "george@george.example.com", "george@george"},
		{"w%%@%h", "w%@george.example.com", "w%@george"},
		{"w1@%i%I", "w1@0", "w1@0"},
		{"a@b@%h", "a@b@george.example.com", "a@b@george"},
		{"w1@", "w1@george.example.com", "w1@george"},
		{"@x", "celery@x", "celery@x"},
		{"%h", "celery@george.example.com", "celery@george"},
		{"w1%", "celery@w1%", "celery@w1%"},
		{"w1@%-%h", "w1@%-george.example.com", "w1@%-george"},
		{"celery@%h", "celery@george.example.com", "celery@george"},
	} {
		got, err := NodeName(tt.pattern, "george.example.com")
		require.NoError(t, err, tt.pattern)
		require.Equal(t, tt.dotted, got, tt.pattern)
		got, err = NodeName(tt.pattern, "george")
		require.NoError(t, err, tt.pattern)
		require.Equal(t, tt.short, got, tt.pattern)
	}
	_, err := NodeName("w@%z", "george")
	require.EqualError(t, err, `config: node name "w@%z": %z is not allowed: one of %h, %n, %d, %i, %I, %%`)
}
