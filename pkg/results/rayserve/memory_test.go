package rayserve

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

func remember(m *memory, id string, state protocol.State, size int) (gone []string) {
	all, _ := m.put(&kept{taskID: id, state: state, body: make([]byte, size)})
	for _, k := range all {
		gone = append(gone, k.taskID)
	}
	return gone
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory(Form{}.Keeps)
	require.Equal(t, 10_000, m.most)
	m.most, m.bytes = 3, 100
	for i := range 3 {
		require.Empty(t, remember(m, strconv.Itoa(i), protocol.StateSuccess, 1))
	}
	require.Equal(t, []string{"0"}, remember(m, "3", protocol.StateSuccess, 1), "the oldest goes")
	require.Equal(t, []string{"1", "2"}, remember(m, "4", protocol.StateFailure, 99))
	require.Equal(t, []string{"3"}, remember(m, "4", protocol.StateFailure, 100))
	require.Equal(t, []string{"4"}, remember(m, "4", protocol.StateFailure, 101))
	require.Zero(t, m.len())
	require.Zero(t, m.used)
	require.Nil(t, m.next())
}

func TestMemoryTakesTurns(t *testing.T) {
	m := newMemory(Form{}.Keeps)
	for i := range 4 {
		remember(m, strconv.Itoa(i), protocol.StateSuccess, 1)
	}
	require.Equal(t, "0", m.next().taskID)
	second := m.next()
	require.Equal(t, "1", second.taskID)
	m.done(second)
	m.done(second)
	m.forget("2") // which is next
	require.Equal(t, "3", m.next().taskID)
	require.Equal(t, "0", m.next().taskID, "from the start again")
	require.Equal(t, 2, m.len())
}

func TestMemoryKeepsTheNewestOfATask(t *testing.T) {
	m := newMemory(Form{}.Keeps)
	remember(m, "1", protocol.StateFailure, 1)
	old := m.next()
	remember(m, "1", protocol.StateStarted, 1)
	m.done(old)
	require.Equal(t, protocol.StateStarted, m.get("1").state, "only what was stored goes")
	remember(m, "1", protocol.StateRevoked, 1)
	remember(m, "1", protocol.StateSuccess, 1)
	require.Equal(t, protocol.StateRevoked, m.get("1").state, "the first that stays")
	require.Equal(t, 1, m.used)
	require.Len(t, m.close(), 1)
	_, ok := m.put(&kept{taskID: "2"})
	require.False(t, ok)
}
