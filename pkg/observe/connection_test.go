package observe

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func TestConnectionFollowsItsTransport(t *testing.T) {
	var calls []string
	var c Connection
	hooks := c.Hooks(transport.Hooks{
		Lost: func(error) { calls = append(calls, "lost") }, Restored: func() { calls = append(calls, "restored") },
	})
	require.ErrorIs(t, c.Err(), errNotConnected)
	hooks.Restored() // a start that took more than one attempt
	require.Zero(t, c.Reconnects())
	c.Started()
	require.NoError(t, c.Err())
	hooks.Lost(errors.New("reset by peer"))
	require.ErrorIs(t, c.Err(), errNotConnected)
	require.ErrorContains(t, c.Err(), "reset by peer")
	hooks.Restored()
	require.NoError(t, c.Err())
	require.EqualValues(t, 1, c.Reconnects())
	require.Equal(t, []string{"restored", "lost", "restored"}, calls, "they are passed on")

	c = Connection{}
	hooks = c.Hooks(transport.Hooks{})
	hooks.Lost(errors.New("x"))
	hooks.Restored()
	require.NoError(t, c.Err())
}

// TestALossBeforeTheStartIsToldCounts: the start is told a moment after it happened.
func TestALossBeforeTheStartIsToldCounts(t *testing.T) {
	var c Connection
	hooks := c.Hooks(transport.Hooks{})
	hooks.Lost(errors.New("reset by peer"))
	c.Started()
	require.ErrorContains(t, c.Err(), "reset by peer")
	hooks.Restored()
	require.NoError(t, c.Err())
}

// TestOneLineForEachChange: a broker that is away for long doesn't fill the log.
func TestOneLineForEachChange(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		begin func(transport.Hooks)
		want  []string
	}{
		"at the start": {func(transport.Hooks) {}, []string{
			"ERROR/MainProcess] consumer: Cannot connect to b:1: refused. Trying again in 2.00 seconds... (1)",
			"INFO/MainProcess] Connected to b:1 after ",
		}},
		"later": {func(h transport.Hooks) { h.Lost(refused) }, []string{
			"WARNING/MainProcess] consumer: Connection to broker lost. Trying to re-establish the connection... (refused)",
			"INFO/MainProcess] Connected to b:1 after ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := NewLogger(&out, Console, "info")
			require.NoError(t, err)
			hooks := NewLog(logger).TransportHooks("b:1")
			for range 2 { // the second outage is news again
				out.Reset()
				c.begin(hooks)
				for attempt := range 100 {
					hooks.Retrying(refused, attempt+1, 2*time.Second)
				}
				hooks.Restored()
				lines := strings.Split(strings.TrimSpace(out.String()), "\n")
				require.Len(t, lines, len(c.want), out.String())
				for i, want := range c.want {
					require.Contains(t, lines[i], want)
				}
			}
			out.Reset()
			hooks.GaveUp(refused)
			require.Contains(t, out.String(), "CRITICAL/MainProcess] consumer: Cannot connect to b:1, the attempts are used up: refused")
		})
	}
}
