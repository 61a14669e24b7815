package rayserve

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
)

const createdAt = "2026-11-29T10:59:00+00:00"

func TestRecordsThatAreReplaced(t *testing.T) {
	long := strings.Repeat("é", 20_000)
	var replaced []string
	form := Form{MaxResult: minMaxResult, Replaced: func(id string, err error) { replaced = append(replaced, id+": "+err.Error()) }}
	for name, c := range map[string]struct {
		meta   protocol.Meta
		status protocol.State
		error  string
		why    string
	}{
		"large result": {
			protocol.Meta{Status: protocol.StateSuccess, Result: long}, protocol.StateSuccess,
			"the result of 120651 bytes, its message included, exceeds the limit of 8192 bytes",
			"120651 bytes with the message around it, at most 8192",
		},
		"large error": {
			protocol.Meta{Status: protocol.StateFailure, Result: protocol.Exception{Type: "ValueError", Args: []any{long}}}, protocol.StateFailure,
			"ValueError: " + strings.Repeat("é", 494) + "… (the result of", "at most 8192",
		},
		"large error in words": {
			protocol.Meta{Status: protocol.StateFailure, Extra: map[string]any{wire.ExtraError: long}}, protocol.StateFailure,
			strings.Repeat("é", 500) + "… (the result of", "at most 8192",
		},
		"bytes": {
			protocol.Meta{Status: protocol.StateSuccess, Result: map[string]any{"image": []byte{1}}}, protocol.StateFailure,
			"EncodeError: the task has run, but its result can't be written: result.image: type []uint8", "type []uint8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			replaced = nil
			c.meta.TaskID, c.meta.DateDone = "1", time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
			if c.meta.Extra == nil {
				c.meta.Extra = map[string]any{}
			}
			c.meta.Extra[wire.ExtraCreatedAt] = createdAt
			body, metadata, err := form.Encode(c.meta)
			require.NoError(t, err)
			require.Empty(t, metadata)
			require.LessOrEqual(t, len(body), minMaxResult)
			got, err := form.Decode(body)
			require.NoError(t, err)
			require.Equal(t, c.status, got.Status)
			require.Contains(t, got.Extra[wire.ExtraError], c.error)
			require.Equal(t, createdAt, got.Extra[wire.ExtraCreatedAt])
			if c.status == protocol.StateSuccess {
				require.Nil(t, got.Result)
			}
			require.Len(t, replaced, 1)
			require.Contains(t, replaced[0], c.why)
		})
	}
}

// TestTimeOfAStranger: a producer's created_at can't make a record too large.
func TestTimeOfAStranger(t *testing.T) {
	body, _, err := Form{}.Encode(protocol.Meta{
		TaskID: "1", Status: protocol.StateSuccess, Extra: map[string]any{wire.ExtraCreatedAt: strings.Repeat("2", DefaultMaxResult)},
	})
	require.NoError(t, err)
	require.Less(t, len(body), minMaxResult)
}

func TestWhatIsKept(t *testing.T) {
	for state, keeps := range map[protocol.State]bool{
		protocol.StatePending: false, protocol.StateStarted: false, protocol.StateFailure: false,
		protocol.StateSuccess: true, protocol.StateRevoked: true,
	} {
		require.Equal(t, keeps, Form{}.Keeps(state), state)
	}
}

// TestFormReadsWhatItMayWrite: as large as the form's own limit.
func TestFormReadsWhatItMayWrite(t *testing.T) {
	record := append([]byte(`{"task_id": "1", "status": "SUCCESS"}`), bytes.Repeat([]byte(" "), 65<<20)...)
	_, err := Form{}.Decode(record)
	require.Error(t, err)
	meta, err := Form{MaxResult: 70 << 20}.Decode(record)
	require.NoError(t, err)
	require.Equal(t, protocol.StateSuccess, meta.Status)
}
