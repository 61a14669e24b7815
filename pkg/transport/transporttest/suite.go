package transporttest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// patience bounds everything that should happen soon.
const patience = 90 * time.Second

// Option tells the suite what it may do to the broker, or what it should not
// expect of it.
type Option func(*suite)

// WithRestart gives the suite a way to restart the broker: restart returns when it
// answers again, with everything that it had stored.
func WithRestart(restart func(t *testing.T)) Option {
	return func(s *suite) { s.restart = restart }
}

// WithCut gives the suite a way to cut all connections to the broker at once; new
// ones work.
func WithCut(cut func(t *testing.T)) Option {
	return func(s *suite) { s.cut = cut }
}

// SettlingTogether skips what a consumer can't do that settles all deliveries of
// one Receive together and asks for more only then.
func SettlingTogether(why string) Option {
	return func(s *suite) { s.together = why }
}

// suite is the tests with what they work on.
type suite struct {
	open     func(t *testing.T) transport.Transport
	restart  func(t *testing.T)
	cut      func(t *testing.T)
	together string
}

// Run tests the transports that open makes: each a new one to the same broker, not
// started. The suite starts and stops them.
func Run(t *testing.T, open func(t *testing.T) transport.Transport, options ...Option) {
	t.Helper()
	s := &suite{open: open}
	for _, option := range options {
		option(s)
	}
	t.Run("together", func(t *testing.T) {
		for _, one := range []struct {
			name string
			test func(t *testing.T)
		}{
			{"RoundTrip", s.roundTrip},
			{"Order", s.order},
			{"SlotsNeverExceeded", s.slotsNeverExceeded},
			{"WaitingReceiveGetsMessage", s.waitingReceiveGetsMessage},
			{"AttemptsTravel", s.attemptsTravel},
			{"BigMessage", s.bigMessage},
			{"TooLarge", s.tooLarge},
			{"InvalidNames", s.invalidNames},
			{"ExpiredIsDropped", s.expiredIsDropped},
			{"DelayNeverEarly", s.delayNeverEarly},
			{"DelayBeyondMaximum", s.delayBeyondMaximum},
			{"TwoDelayedOfOneTask", s.twoDelayedOfOneTask},
			{"Ack", s.ack},
			{"AckManyAtOnce", s.ackManyAtOnce},
			{"AckIsPrompt", s.ackIsPrompt},
			{"Nack", s.nack},
			{"NackByAnother", s.nackByAnother},
			{"Requeue", s.requeue},
			{"RequeueBeyondMaximum", s.requeueBeyondMaximum},
			{"Postpone", s.postpone},
			{"Release", s.release},
			{"ReleaseOneOfMany", s.releaseOneOfMany},
			{"DeadLetter", s.deadLetter},
			{"FailedSettlementLeavesDeliveryOpen", s.failedSettlementLeavesDeliveryOpen},
			{"SettledOnce", s.settledOnce},
			{"CopiesAfterAck", s.copiesAfterAck},
			{"StartsAreCounted", s.startsAreCounted},
			{"StartsOfOneMessage", s.startsOfOneMessage},
			{"AutoAck", s.autoAck},
			{"AutoAckGivesBack", s.autoAckGivesBack},
			{"AutoAckCancelLosesNothing", s.autoAckCancelLosesNothing},
			{"CancelEndsReceive", s.cancelEndsReceive},
			{"CancelLosesNothing", s.cancelLosesNothing},
			{"CloseGivesBack", s.closeGivesBack},
			{"CloseEndsReceive", s.closeEndsReceive},
			{"NoHostages", s.noHostages},
			{"NoDoubleWork", s.noDoubleWork},
			{"Broadcast", s.broadcast},
			{"Requests", s.requests},
			{"RequestsUnanswered", s.requestsUnanswered},
			{"RequestsWaitTheirTurn", s.requestsWaitTheirTurn},
			{"RespondingEnds", s.respondingEnds},
			{"AnswerTooLarge", s.answerTooLarge},
			{"StopIsFinal", s.stopIsFinal},
		} {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				one.test(t)
			})
		}
	})
	// These take the broker away, so they run alone.
	t.Run("CutConnection", s.cutConnection)
	t.Run("CutWhileIdle", s.cutWhileIdle)
	t.Run("CutWhileResponding", s.cutWhileResponding)
	t.Run("Restart", s.restarted)
	t.Run("NothingIsLost", s.nothingIsLost)
}

// start opens a transport for one test.
func (s *suite) start(t *testing.T) transport.Transport {
	t.Helper()
	tr := s.open(t)
	t.Cleanup(func() { require.NoError(t, tr.Stop()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, tr.Start(ctx))
	return tr
}

// queueName is one that no other test uses.
func queueName() string { return "conformance." + rand.Text() }

// consumer opens a consumer that is closed at the end of the test.
func consumer(t *testing.T, tr transport.Transport, queue string) transport.Consumer {
	t.Helper()
	c, err := tr.Consumer(queue)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func publish(t *testing.T, tr transport.Transport, queue string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		require.NoError(t, tr.Publish(t.Context(), queue, transport.Outgoing{Body: []byte(body)}))
	}
}

// receive asks, for at most slots at a time, until n messages have come.
func receive(t *testing.T, c transport.Consumer, n, slots int) []transport.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []transport.Delivery
	for len(got) < n && ctx.Err() == nil {
		require.NoError(t, c.Receive(ctx,
			transport.ReceiveRequest{Slots: min(slots, n-len(got)), Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
	}
	require.Len(t, got, n, "messages received within %s", patience)
	return got
}

// drain receives n messages and acks them as they come.
func drain(t *testing.T, c transport.Consumer, n, slots int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var texts []string
	for len(texts) < n && ctx.Err() == nil {
		var got []transport.Delivery
		require.NoError(t, c.Receive(ctx,
			transport.ReceiveRequest{Slots: min(slots, n-len(texts)), Wait: time.Second},
			func(d transport.Delivery) { got = append(got, d) }))
		ackAll(t, got)
		texts = append(texts, bodies(got)...)
	}
	require.Len(t, texts, n, "messages received within %s", patience)
	return texts
}

// one receives a single message.
func one(t *testing.T, c transport.Consumer) transport.Delivery {
	t.Helper()
	return receive(t, c, 1, 1)[0]
}

// settleWait is how long a broker may take to give back what a closed consumer
// held.
const settleWait = 200 * time.Millisecond

// empty checks that a queue has nothing to give: with the wait that the broker
// needs to be sure.
func empty(t *testing.T, tr transport.Transport, c transport.Consumer) {
	t.Helper()
	var got []string
	for end := time.Now().Add(max(tr.Capabilities().MinWait, settleWait)); len(got) == 0; {
		require.NoError(t, c.Receive(t.Context(), transport.ReceiveRequest{Slots: 1, Wait: time.Until(end)},
			func(d transport.Delivery) { got = append(got, string(d.Body())) }))
		if !time.Now().Before(end) {
			break
		}
	}
	require.Empty(t, got, "the queue should be empty")
}

// ackAll settles deliveries at the same time, as a worker does.
func ackAll(t *testing.T, deliveries []transport.Delivery) {
	t.Helper()
	errs := make([]error, len(deliveries))
	var all sync.WaitGroup
	for i, d := range deliveries {
		all.Go(func() { errs[i] = d.Ack(t.Context()) })
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func bodies(deliveries []transport.Delivery) []string {
	texts := make([]string, 0, len(deliveries))
	for _, d := range deliveries {
		texts = append(texts, string(d.Body()))
	}
	return texts
}
