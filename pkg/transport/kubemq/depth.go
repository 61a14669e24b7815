package kubemq

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
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

// Waiting tells at once how many messages of a channel are ready or in flight, those
// that have expired unnoticed among them; a peek for more than there are waits for a
// second. told is false where the server can't tell.
func (c *Client) Waiting(ctx context.Context, channel string) (messages int64, told bool, err error) {
	if cutName(channel) != channel {
		return 0, false, nil // another queue may be listed under the name
	}
	found, err := c.queuesInfo(ctx, channel)
	if err != nil {
		return 0, false, err
	}
	for _, queue := range found {
		messages = max(messages, queue.Waiting)
	}
	return messages, true, nil // unknown channels do not appear
}

// Depths returns the depth of each of queues, by its Celery name; a queue that never
// had a message has 0. A name that the server can't take is transport.ErrName.
func (c *Client) Depths(ctx context.Context, queues ...string) (map[string]int64, error) {
	channels := make([]string, len(queues))
	for i, queue := range queues {
		var err error
		if channels[i], err = ChannelName(queue); err != nil {
			return nil, err
		}
	}
	listed, err := c.Queues(ctx, channels...)
	if err != nil {
		return nil, err
	}
	byChannel := make(map[string]int64, len(listed))
	for _, one := range listed {
		byChannel[one.Name] = one.Depth
	}
	depths := make(map[string]int64, len(queues))
	for i, queue := range queues {
		depths[queue] = byChannel[channels[i]]
	}
	return depths, nil
}

// Depths is transport.Depther's. It asks over the connection of the broadcasts, where
// no message waits behind the answer.
func (t *Transport) Depths(ctx context.Context, queues ...string) (map[string]int64, error) {
	return t.events.Depths(ctx, queues...)
}

var _ transport.Depther = (*Transport)(nil)
