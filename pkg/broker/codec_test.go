package broker

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateSurvivesTheStore(t *testing.T) {
	states := map[string]storedMessage{
		"plain":   {id: 1, channel: "q", size: 10, state: state{seq: 1, timestamp: 1_700_000_000_000_000_000}},
		"delayed": {id: 2, channel: "q.a-b_c", size: 1, state: state{timestamp: 5, dueAt: 9, expiresAt: 12}},
		"extreme": {
			id: math.MaxUint64, channel: strings.Repeat("x", maxNameBytes), size: math.MaxInt32,
			state: state{seq: math.MaxUint64, timestamp: math.MaxInt64, expiresAt: math.MaxInt64, dueAt: math.MinInt64, count: math.MaxInt32},
		},
	}
	for name, want := range states {
		t.Run(name, func(t *testing.T) {
			got, err := decodeState(want.id, encodeState(&want))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestDamagedStateIsAnError(t *testing.T) {
	good := encodeState(&storedMessage{id: 1, channel: "q", size: 1, state: state{seq: 300, timestamp: 1 << 40}})
	for n := range good {
		_, err := decodeState(1, good[:n])
		require.ErrorIs(t, err, errRecord, "the first %d bytes", n)
	}
	_, err := decodeState(0, good)
	require.ErrorIs(t, err, errRecord)
	_, err = decodeState(1, append(good, '/'))
	require.ErrorIs(t, err, errRecord)
}

func TestKeysSurviveTheStore(t *testing.T) {
	id, err := decodeMessageKey(messageKey(keyState, 1<<63+5))
	require.NoError(t, err)
	require.Equal(t, uint64(1<<63+5), id)
	_, err = decodeMessageKey([]byte("s123"))
	require.ErrorIs(t, err, errRecord)

	want := channelKey{kind: kindEvents, name: "a.b"}
	got, err := decodeChannelKey(encodeChannelKey(want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, damaged := range []string{"", "c", "cqueues"} {
		_, err = decodeChannelKey([]byte(damaged))
		require.ErrorIs(t, err, errRecord)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeState(&storedMessage{id: 1, channel: "q", size: 1, state: state{seq: 300, timestamp: 1 << 40}}))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := decodeState(7, value)
		if err != nil {
			return
		}
		again, err := decodeState(7, encodeState(&m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
