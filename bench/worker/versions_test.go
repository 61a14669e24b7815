package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionIn(t *testing.T) {
	require.Equal(t, "Celery 5.7.0", versionIn("Celery", "5.7.0 (name)\n"))
	require.Equal(t, "Redis 7.0.15", versionIn("", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n"))
}
