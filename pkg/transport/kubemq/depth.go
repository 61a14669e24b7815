package kubemq

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
)

const (
	// cutFromNames are the characters that the 2023 server cuts from the ends of a name
	// when it tells of a queue; it is asked for such a queue by what is left
	// (docs/protocol.md §16).
	cutFromNames = "_QUES."
	// infoTimeout bounds what servers answer at once. A client without a link has
	// nothing else that would notice a peer gone silent.
	infoTimeout = 10 * time.Second
)

// queuesInfo asks for all queues, or for those of the given channels that the server
// knows, which are called by the names of their channels.
func (c *Client) queuesInfo(ctx context.Context, channels ...string) ([]*pb.QueueInfo, error) {
	ctx, cancel := context.WithTimeout(c.call(ctx), infoTimeout)
	defer cancel()
	answer, err := c.rpc.QueuesInfo(ctx, &pb.QueuesInfoRequest{
		RequestID: rand.Text(), QueueName: strings.Join(listedNames(channels), ";"),
	}, grpc.WaitForReady(true))
	if err != nil {
		return nil, c.failed(err)
	}
	listed := answer.GetInfo().GetQueues()
	if len(channels) == 0 {
		return listed, nil
	}
	var found []*pb.QueueInfo
	for _, channel := range channels {
		if at := slices.IndexFunc(listed, func(q *pb.QueueInfo) bool { return q.Name == channel }); at >= 0 {
			found = append(found, listed[at])
			continue
		}
		for _, q := range listed {
			if q.Name == cutName(channel) {
				q.Name = channel
				found = append(found, q)
				break
			}
		}
	}
	return found, nil
}

// listedNames are the names under which servers may list channels.
func listedNames(channels []string) []string {
	names := slices.Clone(channels)
	for _, channel := range channels {
		if cut := cutName(channel); cut != channel {
			names = append(names, cut)
		}
	}
	return names
}

func cutName(channel string) string { return strings.Trim(channel, cutFromNames) }

// IsEmpty tells at once whether a channel has no message that is ready or in flight;
// a peek at an empty channel waits for a second. It is false also where the server
// can't tell.
func (c *Client) IsEmpty(ctx context.Context, channel string) (bool, error) {
	if cutName(channel) != channel {
		return false, nil // another queue may be listed under the name
	}
	found, err := c.queuesInfo(ctx, channel)
	return err == nil && !slices.ContainsFunc(found, func(q *pb.QueueInfo) bool { return q.Waiting > 0 }), err
}
