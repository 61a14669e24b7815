package command

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/transport/transporttest"
)

// faultyLetters are dead letters behind a network that can be cut.
type faultyLetters struct {
	*letters
	proxy *transporttest.Proxy
}

const manyLetters = 40

func startFaultyLetters(t *testing.T) *faultyLetters {
	t.Helper()
	l := startLetters(t, broker.Quirks{})
	proxy := transporttest.NewProxy(t, l.address)
	t.Setenv("CELERY_BROKER_URL", "kubemq://"+proxy.Addr())
	for i := range manyLetters {
		id := fmt.Sprintf("id-%d", i)
		l.kill("orders", task(t, "shop.pay", id, protocol.EncodeOptions{}), transport.DeadLetter{
			Queue: "failed", Reason: "rejected", Detail: "no", Task: "shop.pay", ID: id,
		})
	}
	return &faultyLetters{letters: l, proxy: proxy}
}

// count says how often each letter is in the channels.
func (l *faultyLetters) count(channels ...string) map[string]int {
	l.t.Helper()
	found := map[string]int{}
	for _, channel := range channels {
		for _, message := range l.in(channel) {
			one := letterOf(message)
			found[one.ID]++
		}
	}
	return found
}

// cut cuts connections now and then, until end is called.
func (l *faultyLetters) cut(seed uint64, every time.Duration) (end func()) {
	enough, cutting := make(chan struct{}), sync.WaitGroup{}
	random := rand.New(rand.NewPCG(7, seed))
	cutting.Go(func() {
		for {
			timer := time.NewTimer(time.Duration(random.Int64N(int64(every))))
			defer timer.Stop()
			select {
			case <-enough:
				return
			case <-timer.C:
			}
			if random.IntN(2) == 0 {
				l.proxy.Reset()
			} else {
				l.proxy.Cut()
			}
		}
	})
	return func() { close(enough); cutting.Wait() }
}

// TestDLQLosesNothingWhenItIsCutOff: whatever the connection does in the middle, each
// letter is in its queue, or where it was put, or in both.
func TestDLQLosesNothingWhenItIsCutOff(t *testing.T) {
	l := startFaultyLetters(t)
	for i, args := range [][]string{
		{"edit", "failed", "id-7", "--kwargs", `{"note": "new"}`}, {"edit", "failed", "id-9", "--args", "[2]", "--replay"},
		{"replay", "failed", "--all", "--limit", "20"}, {"replay", "failed", "--all"}, {"replay", "failed", "--all"},
	} {
		end := l.cut(uint64(i), 50*time.Millisecond)
		_, _, errOut := run(t, append([]string{"dlq"}, args...)...)
		end()
		require.Len(t, l.count("failed", "orders"), manyLetters, "%v: %s", args, errOut)
	}
	code, _, errOut := run(t, "dlq", "replay", "failed", "--all")
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, l.count("failed"))
	require.Len(t, l.count("orders"), manyLetters)
}

// TestDLQUsesEachLetterOnce: where the connection is lost between the use of letters
// and their removal, they are removed later and not used again.
func TestDLQUsesEachLetterOnce(t *testing.T) {
	l := startFaultyLetters(t)
	client, err := kubemq.NewClient(kubemq.Config{Address: l.proxy.Addr()})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	box, err := openBox(t.Context(), client, "failed", "failed", false)
	require.NoError(t, err)
	all := func(letter) bool { return true }
	used := map[string]int{}
	use := func(_ context.Context, one letter, _ *kubemq.QueueMessage) error {
		if used[one.ID]++; len(used) == 5 || len(used) == 35 {
			l.proxy.Reset()
		}
		return nil
	}
	require.NoError(t, box.take(t.Context(), manyLetters-2, all, use))
	require.Len(t, used, manyLetters-2)
	for id, times := range used {
		require.Equal(t, 1, times, id)
	}
	require.Len(t, l.count("failed"), 2)
}
