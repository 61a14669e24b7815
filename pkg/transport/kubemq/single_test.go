package kubemq

import (
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/transport"
)

// TestReceiveDoesNotLeaveBeforeItsGetsAreAnswered: what they bring at the end of
// their wait would go back to the queue. A busy machine may answer too late for that
// now and then, but not each time.
func TestReceiveDoesNotLeaveBeforeItsGetsAreAnswered(t *testing.T) {
	t.Parallel()
	const tries = 10
	for range tries {
		if receivesLate(t) {
			return
		}
	}
	t.Fatalf("no late message was received in %d tries", tries)
}

// receivesLate tells whether a Receive got the message that came just after the wait
// of its Gets.
func receivesLate(t *testing.T) bool {
	t.Helper()
	hold := holding(message("late", 1))
	fake := &fakeServer{downstream: func(request *pb.QueuesDownstreamRequest, answer func(*pb.QueuesDownstreamResponse)) {
		if request.RequestTypeData == pb.QueuesDownstreamRequestType_Get {
			<-time.After(minGetWait + answerTime/4)
		}
		hold(request, answer)
	}}
	c := opened(t, started(t, Config{Address: fake.serve(t), Strategy: StrategySingle}), "q")
	var got []transport.Delivery
	require.NoError(t, c.Receive(t.Context(), transport.ReceiveRequest{Slots: 2, Wait: minGetWait},
		func(d transport.Delivery) { got = append(got, d) }))
	require.Len(t, fake.of(pb.QueuesDownstreamRequestType_Get), 2)
	if len(got) == 0 {
		return false
	}
	require.Len(t, got, 1)
	require.NoError(t, got[0].Ack(t.Context()))
	return true
}
