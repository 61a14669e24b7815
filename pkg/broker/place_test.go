package broker

import (
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/internal/kubemqwire"
)

// TestASendTellsItsPlace: 1 exactly where nothing is in front of the message.
func TestASendTellsItsPlace(t *testing.T) {
	eachStore(t, func(c *client) {
		send := func(m *pb.QueueMessage) uint64 { return kubemqwire.PlaceOf(c.send(m)[0]) }
		delayed := testMessage("q", "later")
		delayed.Policy = &pb.QueueMessagePolicy{DelaySeconds: 3600}
		require.Zero(t, send(delayed))
		require.EqualValues(t, 1, send(testMessage("q", "a")))
		require.EqualValues(t, 2, send(testMessage("q", "b")))
		require.EqualValues(t, 1, send(testMessage("other", "a")))

		results := c.send(testMessage("q", "c"), testMessage("q", "d"))
		require.EqualValues(t, 3, kubemqwire.PlaceOf(results[0]))
		require.EqualValues(t, 4, kubemqwire.PlaceOf(results[1]))

		// One that is in somebody's hands is in front, too.
		taker := c.consumer()
		taker.get("other", 1)
		require.EqualValues(t, 2, send(testMessage("other", "b")))
	})
}

func TestTheOriginalTellsNoPlace(t *testing.T) {
	t.Parallel()
	c := startQuirky(t, Quirks{NoPlaces: true})
	require.Zero(t, kubemqwire.PlaceOf(c.send(testMessage("q", "a"))[0]))
}
