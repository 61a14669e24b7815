package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

func TestPairingsReferToEachOther(t *testing.T) {
	keys := make(map[string]bool)
	for _, c := range pairings() {
		require.False(t, keys[c.key], "%s is there twice", c.key)
		keys[c.key] = true
		require.NotEmpty(t, c.task.name, c.key)
		require.NotEmpty(t, c.broker, c.key)
		require.Positive(t, c.slots, c.key)
	}
	for _, c := range pairings() {
		if c.against != "" {
			require.True(t, keys[c.against], "%s refers to %s", c.key, c.against)
		}
	}
	for _, bar := range bars {
		require.True(t, keys[bar.key], "the chart shows %s", bar.key)
	}
}

func TestMessagesOfATemplateDifferInTheirIDs(t *testing.T) {
	template, err := noop(100).template(queueName)
	require.NoError(t, err)
	first, second := template.next(), template.next()
	require.NotEqual(t, first.envelope, second.envelope)
	for _, w := range []wire{first, second} {
		envelope, err := protocol.DecodeEnvelope(w.envelope, protocol.DefaultLimits())
		require.NoError(t, err)
		accept, err := protocol.NewAccept([]string{"json"})
		require.NoError(t, err)
		message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Accept: accept, Limits: protocol.DefaultLimits()})
		require.NoError(t, err)
		require.Equal(t, "bench.noop", message.Task)
		require.Equal(t, []any{strings.Repeat("x", 100)}, message.Args)
		require.NotEqual(t, placeholder, message.ID)
		require.Contains(t, string(w.headers), message.ID)
	}
}
