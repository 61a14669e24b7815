package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFormatTimeOffsets: as Python's isoformat writes them.
func TestFormatTimeOffsets(t *testing.T) {
	t.Parallel()
	for offset, want := range map[int]string{
		0: "+00:00", 20_700: "+05:45", -1800: "-00:30", -43_200: "-12:00", -30: "-00:00:30", 3_661: "+01:01:01",
	} {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", offset))
		require.Equal(t, "2026-01-02T03:04:05"+want, FormatTime(at))
		require.Equal(t, "2026-01-02T03:04:05.000007"+want, FormatTime(at.Add(7*time.Microsecond)))
	}
}
