package kubemq

import (
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

func TestALetterTellsWhatWasWrittenBesideIt(t *testing.T) {
	t.Parallel()
	message := &pb.QueueMessage{Channel: "dead", Tags: map[string]string{"priority": "3", "lovage-traceback": "an older one's"}}
	setAttempts(message, 4)
	at := time.Date(2026, 11, 29, 12, 0, 0, 5000, time.UTC)
	want := transport.DeadLetter{
		Queue: "dead", Reason: "worker-lost", Detail: "last", FirstError: "first", Task: "shop.pay", ID: "id-1",
		Worker: "celery@host", Time: at,
	}
	setLetter(message, "shop/orders", want)
	require.Equal(t, map[string]string{
		"priority": "3", "lovage-attempts": "4", "lovage-reason": "worker-lost", "lovage-detail": "last",
		"lovage-first-error": "first", "lovage-task": "shop.pay", "lovage-id": "id-1", "lovage-queue": "shop/orders",
		"lovage-worker": "celery@host", "lovage-time": "2026-11-29T12:00:00.000005Z",
	}, message.Tags)
	require.Equal(t, Letter{DeadLetter: want, From: "shop/orders", Attempts: 4}, LetterOf(message))
}

func TestALettersTextsAreBounded(t *testing.T) {
	t.Parallel()
	message := &pb.QueueMessage{Tags: map[string]string{}}
	setLetter(message, "q", transport.DeadLetter{
		Reason: "r", Detail: "begin \xff" + strings.Repeat("x", 10_000), Traceback: strings.Repeat("\u00fc", 10_000) + "end",
	})
	letter := LetterOf(message)
	require.Len(t, letter.Detail, maxLetterText)
	require.True(t, strings.HasPrefix(letter.Detail, "begin \uFFFD"))
	require.LessOrEqual(t, len(letter.Traceback), maxLetterText)
	require.True(t, strings.HasSuffix(letter.Traceback, "\u00fcend"))
	require.Empty(t, LetterOf(&pb.QueueMessage{Tags: map[string]string{"lovage-time": "yesterday"}}).Time)
}
