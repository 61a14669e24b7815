package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("4242 (a (strange) name) S 17 4242 4242 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1 2 3\n")
	require.NoError(t, err)
	require.Equal(t, stat{pid: 4242, parent: 17, state: "S", cpu: 3 * time.Second}, got)
	for _, broken := range []string{"", "1 name S 1", "1 (name) S 1", "x (name) S 17 1 1 0 -1 1 100 0 0 0 250 50 0"} {
		_, err := parseStat(broken)
		require.Error(t, err, broken)
	}
}

func TestTheCostOfAProcessIsThatOfItsChildrenToo(t *testing.T) {
	p, err := startProcess(t.Context(), nil, "/bin/sh", "-c", "sleep 60 & wait")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.end()) }()
	require.Eventually(t, func() bool {
		family, err := familyOf(p.command.Process.Pid)
		return err == nil && len(family) == 2
	}, 10*time.Second, pollPause)
	used, err := p.cost()
	require.NoError(t, err)
	require.Positive(t, used.memory)
}
