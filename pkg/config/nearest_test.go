package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"ab", "abc", 1},
		{"abcd", "acbd", 1}, {"kitten", "sitting", 3}, {"", "abc", 3},
	} {
		require.Equal(t, tt.want, distance(tt.a, tt.b, 100), "%q %q", tt.a, tt.b)
	}
	require.Equal(t, 2, distance(strings.Repeat("x", 1<<20), "x", 2), "lengths too far apart are not compared")
}

func TestNearest(t *testing.T) {
	names := []string{"task_acks_late", "task_queues", "log"}
	require.Equal(t, "task_acks_late", nearest("task_ack_late", names))
	require.Equal(t, "task_queues", nearest("task_queue", names))
	require.Empty(t, nearest("zzzzzzzzz", names))
	require.Empty(t, nearest("", names))
}
