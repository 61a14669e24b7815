package worker

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

func TestIdentity(t *testing.T) {
	of := func(change func(queue *string, e *protocol.Envelope, m *protocol.Message)) identity {
		queue := "celery"
		e := &protocol.Envelope{Body: []byte("[[1], {}, {}]"), Properties: protocol.Properties{DeliveryTag: "tag"}}
		m := &protocol.Message{Task: "t", ID: "id", Retries: 1}
		change(&queue, e, m)
		return identityOf(queue, e, m)
	}
	same := of(func(*string, *protocol.Envelope, *protocol.Message) {})
	require.NotEmpty(t, same)
	require.Equal(t, same, of(func(_ *string, e *protocol.Envelope, m *protocol.Message) {
		// What a broker may change when it delivers again.
		e.Properties.DeliveryInfo.Redelivered, m.Redelivered = true, true
	}))
	for name, change := range map[string]func(queue *string, e *protocol.Envelope, m *protocol.Message){
		"queue":   func(queue *string, _ *protocol.Envelope, _ *protocol.Message) { *queue = "other" },
		"task":    func(_ *string, _ *protocol.Envelope, m *protocol.Message) { m.Task = "u" },
		"id":      func(_ *string, _ *protocol.Envelope, m *protocol.Message) { m.ID = "other" },
		"retries": func(_ *string, _ *protocol.Envelope, m *protocol.Message) { m.Retries = 2 },
		"tag":     func(_ *string, e *protocol.Envelope, _ *protocol.Message) { e.Properties.DeliveryTag = "other" },
		"body":    func(_ *string, e *protocol.Envelope, _ *protocol.Message) { e.Body = []byte("[[2], {}, {}]") },
		"parts":   func(_ *string, _ *protocol.Envelope, m *protocol.Message) { m.Task, m.ID = "ti", "d" },
	} {
		require.NotEqual(t, same, of(change), name)
	}
	require.Empty(t, of(func(_ *string, e *protocol.Envelope, _ *protocol.Message) { e.Properties.DeliveryTag = "" }))
}

func TestWindowForgetsTheOldest(t *testing.T) {
	w := newWindow(3)
	for i := range 5 {
		w.end(identity(strconv.Itoa(i)), true)
	}
	for i := range 5 {
		finished, _ := w.look(identity(strconv.Itoa(i)))
		require.Equal(t, i >= 2, finished, i)
	}
	require.Len(t, w.finished, 3)
}

func TestWindowForgetsAfterHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(3)
		w.end("a", true)
		elapse(finishedFor - time.Second)
		finished, _ := w.look("a")
		require.True(t, finished)

		elapse(time.Second)
		finished, running := w.begin("a")
		require.False(t, finished)
		require.Nil(t, running)
		w.end("a", true)
		w.end("b", true)
		w.end("c", true)
		require.Len(t, w.order, 3, "what finished again keeps its place")
		finished, _ = w.look("a")
		require.True(t, finished)
	})
}

func TestWindowClaims(t *testing.T) {
	w := newWindow(3)
	finished, running := w.begin("a")
	require.False(t, finished)
	require.Nil(t, running)
	_, running = w.begin("a")
	require.NotNil(t, running)
	w.end("a", false)
	<-running
	finished, running = w.look("a")
	require.False(t, finished)
	require.Nil(t, running, "look makes no claim")
}

func TestNoWindowKnowsNothing(t *testing.T) {
	w := newWindow(0)
	for _, id := range []identity{"a", ""} {
		w.end(id, true)
		finished, running := w.begin(id)
		require.False(t, finished)
		require.Nil(t, running)
	}
	w = newWindow(1)
	w.end("", true)
	finished, running := w.begin("")
	require.False(t, finished, "messages without identity are not duplicates of each other")
	require.Nil(t, running)
}
