package observe

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinesOfResults: an id comes from a stranger and writes no line of its own.
func TestLinesOfResults(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, Console, "info")
	require.NoError(t, err)
	log := NewLog(logger)
	log.ResultKept("id\n", errors.New("no answer"))
	log.ResultDropped("id", errors.New("too many are kept"))
	require.Contains(t, out.String(), `WARNING/MainProcess] Couldn't store the result of [id\n], it is kept in memory and tried again: no answer`)
	require.Contains(t, out.String(), "ERROR/MainProcess] The result of [id] is lost: too many are kept")
	log.ResultReplaced("id", errors.New("5000000 bytes"))
	require.Contains(t, out.String(), "WARNING/MainProcess] The result of [id] can't be stored as it is: 5000000 bytes")
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")))
}
