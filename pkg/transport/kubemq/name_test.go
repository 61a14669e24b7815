package kubemq

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func TestChannelName(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]string{
		"celery":                         "celery",
		"celery@worker1.celery.pidbox":   "celery.worker1.celery.pidbox",
		"celery\x060":                    "celery.0",
		"reply/celery/pidbox":            "reply.celery.pidbox",
		"a b  c":                         "a_b__c",
		"#a//b@@c..d#":                   "a.b.c.d",
		"...a...":                        "a",
		"tasks:high":                     "taskshigh",
		"größe":                          "gre",
		"celeryev.4f3c-9d":               "celeryev.4f3c-9d",
		"UPPER_lower-0.9":                "UPPER_lower-0.9",
		"a\n":                            "a",
		"a\xff\xfeb":                     "ab",
		strings.Repeat("x", 255):         strings.Repeat("x", 255),
		strings.Repeat("é", 300) + "abc": "abc",
	} {
		got, err := ChannelName(queue)
		require.NoError(t, err, queue)
		require.Equal(t, want, got, queue)
	}
	for _, queue := range []string{"", ".", "@/#", "日本", "*>", "a.é.b", "é.a", "a.é", strings.Repeat("x", 256)} {
		_, err := ChannelName(queue)
		require.ErrorIs(t, err, transport.ErrName, queue)
		require.Less(t, len(err.Error()), 400)
	}
}

var (
	dots    = regexp.MustCompile(`\.{2,}`)
	foreign = regexp.MustCompile(`[^a-zA-Z0-9._\-]`)
)

// kubemqCelery is kubemq-celery's rule, as documented: translate, collapse dots,
// strip them at the ends, then drop what is left.
func kubemqCelery(queue string) string {
	for _, separator := range []string{"@", "/", "#", "\x06"} {
		queue = strings.ReplaceAll(queue, separator, ".")
	}
	queue = strings.ReplaceAll(queue, " ", "_")
	queue = strings.Trim(dots.ReplaceAllString(queue, "."), ".")
	return foreign.ReplaceAllString(queue, "")
}

// checkName is what must hold for every name.
func checkName(t *testing.T, queue string) {
	t.Helper()
	channel, err := ChannelName(queue)
	want := kubemqCelery(queue)
	if err != nil {
		usable := want != "" && len(want) <= 255 && !strings.HasPrefix(want, ".") && !strings.HasSuffix(want, ".") &&
			!strings.Contains(want, "..")
		require.False(t, usable, "%q is %q for kubemq-celery", queue, want)
		require.ErrorIs(t, err, transport.ErrName)
		return
	}
	// The same as kubemq-celery's, so that two names share a channel only if they
	// do there.
	require.Equal(t, want, channel, "%q", queue)
	again, err := ChannelName(channel)
	require.NoError(t, err)
	require.Equal(t, channel, again, "a channel's name stays")
}

// TestChannelNameIsKubemqCelerys is T-K9: Python producers and this worker share queues.
func TestChannelNameIsKubemqCelerys(t *testing.T) {
	t.Parallel()
	alphabet := []rune("abz09._-@/# \x06:*>é世\x00\t.")
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		name := make([]rune, random.IntN(12))
		for i := range name {
			name[i] = alphabet[random.IntN(len(alphabet))]
		}
		checkName(t, string(name))
	}
}

func FuzzChannelName(f *testing.F) {
	f.Add("celery@host.celery.pidbox")
	f.Add("a..é..b")
	f.Fuzz(checkName)
}

// TestCheckChannel: a name that is used as it is.
func TestCheckChannel(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"q", "ml.resnet-50_v2", "Q.1"} {
		require.NoError(t, CheckChannel(name), name)
	}
	for _, name := range []string{"", "..", "a/b", "a b", "a@b", "a..b", ".a", "a.", "modèle", "a:b", strings.Repeat("x", 256)} {
		require.ErrorIs(t, CheckChannel(name), transport.ErrName, name)
	}
	require.ErrorContains(t, CheckChannel("a/b"), `"a.b"`, "it says what it would be")
}
