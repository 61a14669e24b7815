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

// IsEmpty tells at once whether a channel has no message that is ready or in flight;
// a peek at an empty channel waits for a second. It is false also where the server
// can't tell.
func (c *Client) IsEmpty(ctx context.Context, channel string) (bool, error) {
	if strings.Trim(channel, cutFromNames) != channel {
		return false, nil
	}
	answer, err := c.rpc.QueuesInfo(c.call(ctx), &pb.QueuesInfoRequest{RequestID: rand.Text(), QueueName: channel}, grpc.WaitForReady(true))
	if err != nil {
		return false, c.failed(err)
	}
	for _, queue := range answer.GetInfo().GetQueues() {
		if queue.Waiting > 0 {
			return false, nil
		}
	}
	return true, nil // unknown channels do not appear
}
