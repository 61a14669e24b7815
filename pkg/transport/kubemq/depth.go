package kubemq

import (
	"context"
	"crypto/rand"
	"strings"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
)

// cutFromNames are the characters that the 2023 server cuts from the ends of a name
// when it tells of a queue, so that such a queue is not found by its name.
const cutFromNames = "_QUES."

// Waiting tells at once how many messages of a channel are ready or in flight, those
// that have expired unnoticed among them; a peek for more than there are waits for a
// second. told is false where the server can't tell.
func (c *Client) Waiting(ctx context.Context, channel string) (messages int64, told bool, err error) {
	if strings.Trim(channel, cutFromNames) != channel {
		return 0, false, nil
	}
	answer, err := c.rpc.QueuesInfo(c.call(ctx), &pb.QueuesInfoRequest{RequestID: rand.Text(), QueueName: channel}, grpc.WaitForReady(true))
	if err != nil {
		return 0, false, c.failed(err)
	}
	for _, queue := range answer.GetInfo().GetQueues() {
		messages = max(messages, queue.Waiting)
	}
	return messages, true, nil // unknown channels do not appear
}
