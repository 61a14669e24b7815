package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"

	pb "github.com/kubemq-io/protobuf/go"
)

// QueuesInfo tells the depth of queues: all, or those named, separated by ";".
// Names that are not known do not appear.
func (s *service) QueuesInfo(_ context.Context, request *pb.QueuesInfoRequest) (*pb.QueuesInfoResponse, error) {
	info := &pb.QueuesInfo{}
	for _, q := range s.queues.infos(request.QueueName) {
		info.TotalQueue++
		info.Sent += q.Sent
		info.Delivered += q.Delivered
		info.Waiting += q.Waiting
		info.Queues = append(info.Queues, q)
	}
	return &pb.QueuesInfoResponse{RefRequestID: request.RequestID, Info: info}, nil
}

func (qs *queues) infos(names string) []*pb.QueueInfo {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	var infos []*pb.QueueInfo
	if names == "" {
		for _, q := range qs.byName {
			infos = append(infos, q.info())
		}
		slices.SortFunc(infos, func(a, b *pb.QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
		return infos
	}
	for name := range strings.SplitSeq(names, ";") {
		if q := qs.byName[name]; q != nil {
			infos = append(infos, q.info())
		}
	}
	return infos
}

// info describes the queue since its first message; nothing is kept of acked
// messages, so Messages and Bytes count what is still there.
func (q *queue) info() *pb.QueueInfo {
	info := &pb.QueueInfo{
		Name:         q.name,
		Messages:     q.waiting(),
		Bytes:        q.readyBytes + q.heldBytes,
		LastSequence: int64(q.lastSeq),
		Sent:         int64(q.lastSeq),
		Delivered:    q.counters.delivered,
		Waiting:      q.waiting(),
		Subscribers:  q.subscribers(),
	}
	if q.lastSeq > 0 {
		info.FirstSequence = 1
	}
	return info
}

// subscribers counts the requests that wait for a message.
func (q *queue) subscribers() int64 {
	members := int64(q.group.size())
	if q.waiters == nil {
		return members
	}
	return members + int64(q.waiters.Len())
}
