package broker

import (
	"strings"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

func TestQueueNames(t *testing.T) {
	for _, name := range []string{
		"celery", "a", "A-b_c.9", strings.Repeat("x", maxNameBytes), "celery-result-0b0d2c6e-1b1c-4d3d-8f5e-2f7a8d3c1e11", "-", "_",
	} {
		require.NoError(t, validateQueueName(name), name)
	}
	for _, name := range []string{
		"", " ", "a b", "*", ">", "a.*", "a.", ".a", "..", "a..b", ".", "a/b", "a:b", "a;b", "ä", "a\tb", "a\r", "\n", "a\x00b",
		"\x7f", strings.Repeat("x", maxNameBytes+1),
	} {
		require.ErrorIs(t, validateQueueName(name), errQueueName, "%q", name)
	}
}

func FuzzQueueName(f *testing.F) {
	f.Add("celery")
	f.Add("a..b")
	f.Fuzz(func(t *testing.T, name string) {
		if validateQueueName(name) != nil {
			return
		}
		require.NotContains(t, name, "..")
		require.NotEmpty(t, strings.Trim(name, "."))
		require.Empty(t, strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"))
	})
}

func TestEventChannels(t *testing.T) {
	tests := []struct {
		channel   string
		publish   error
		subscribe error
	}{
		{"celery.pidbox", nil, nil},
		{"a/b", nil, nil},
		{"", errChannelEmpty, errChannelEmpty},
		{"a.*", errChannelWild, nil},
		{"a.>", errChannelWild, nil},
		{"a b", errChannelSpace, errChannelSpace},
		{"a\tb", errChannelSpace, errChannelSpace},
		{"a\x00", errChannelSpace, errChannelSpace},
		{"a.", errChannelDot, errChannelDot},
		{strings.Repeat("x", 256), errChannelLong, errChannelLong},
	}
	for _, test := range tests {
		require.ErrorIs(t, validateEventChannel(test.channel, false), test.publish, "publish to %q", test.channel)
		require.ErrorIs(t, validateEventChannel(test.channel, true), test.subscribe, "subscribe to %q", test.channel)
	}
}

func TestMessagesAreCheckedInTheOriginalsOrder(t *testing.T) {
	config := Config{}.withDefaults()
	// Each step repairs what the one before complained about; all else is wrong.
	m := &pb.QueueMessage{Policy: &pb.QueueMessagePolicy{
		ExpirationSeconds: -1, MaxReceiveCount: -1, DelaySeconds: -1, MaxReceiveQueue: "a b",
	}}
	steps := []struct {
		want   error
		repair func()
	}{
		{errClientID, func() { m.ClientID = "c" }},
		{errQueueName, func() { m.Channel = "q" }},
		{errMessageEmpty, func() { m.Tags = map[string]string{"only": "tags"} }},
		{errMessageEmpty, func() { m.Metadata = "m" }},
		{errExpiration, func() { m.Policy.ExpirationSeconds = 86_401 }},
		{errExpiration, func() { m.Policy.ExpirationSeconds = 86_400 }},
		{errReceiveCount, func() { m.Policy.MaxReceiveCount = 1025 }},
		{errReceiveCount, func() { m.Policy.MaxReceiveCount = 1024 }},
		{errDelay, func() { m.Policy.DelaySeconds = 86_401 }},
		{errDelay, func() { m.Policy.DelaySeconds = 86_400 }},
		{errQueueName, func() { m.Policy.MaxReceiveQueue = "dead" }},
	}
	for i, step := range steps {
		_, err := config.check(m)
		require.ErrorIs(t, err, step.want, "step %d", i)
		step.repair()
	}
	out, err := config.check(m)
	require.NoError(t, err)
	require.NotEmpty(t, out.payload.MessageID)
	require.Zero(t, out.payload.Policy.DelaySeconds, "consumers see no delay")
}
