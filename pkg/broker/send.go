package broker

import (
	"context"
	"crypto/rand"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/internal/kubemqwire"
)

// sending is a batch of messages on its way into the store.
type sending struct {
	results  []*pb.SendQueueMessageResult
	accepted []int // indexes of results that stand or fall with commit
	commit   *commit
}

// outgoing is a message that passed the checks.
type outgoing struct {
	index   int
	channel string
	payload *pb.QueueMessage
	size    int32
	policy  *pb.QueueMessagePolicy
}

// send stores messages and returns one result for each, in their order. It
// returns when the accepted ones are durable; an error means that ctx ended
// before that was known.
func (qs *queues) send(ctx context.Context, messages []*pb.QueueMessage) ([]*pb.SendQueueMessageResult, error) {
	s, err := qs.submit(ctx, messages)
	if err != nil {
		return nil, err
	}
	return s.wait(ctx)
}

// submit gives messages their places in their queues and hands them to the
// journal. Invalid ones are refused in their results, the rest is sent.
func (qs *queues) submit(ctx context.Context, messages []*pb.QueueMessage) (*sending, error) {
	s := &sending{results: make([]*pb.SendQueueMessageResult, len(messages))}
	var checked []outgoing
	var bytes int64
	for i, m := range messages {
		out, err := qs.config.check(m)
		out.index = i
		s.results[i] = &pb.SendQueueMessageResult{MessageID: out.payload.MessageID}
		if err != nil {
			refuse(s.results[i], err)
			continue
		}
		checked = append(checked, out)
		bytes += int64(out.size)
	}
	if len(checked) == 0 {
		return s, nil
	}
	reserved, err := qs.journal.reserve(ctx, bytes)
	if err != nil {
		return nil, err
	}
	qs.appendTo(s, checked, reserved)
	return s, nil
}

// wait returns the results when the accepted messages are durable.
func (s *sending) wait(ctx context.Context) ([]*pb.SendQueueMessageResult, error) {
	if s.commit == nil {
		return s.results, nil
	}
	err := s.commit.wait(ctx)
	if err != nil && s.commit.failed() == nil {
		return nil, err
	}
	if err != nil {
		for _, i := range s.accepted {
			refuse(s.results[i], err)
		}
	}
	return s.results, nil
}

func refuse(result *pb.SendQueueMessageResult, err error) {
	*result = pb.SendQueueMessageResult{MessageID: result.MessageID, IsError: true, Error: err.Error()}
}

// check validates a message and splits off what is stored as its payload. The
// payload is set in any case: a refusal carries the id as well.
func (c Config) check(m *pb.QueueMessage) (outgoing, error) {
	if m == nil {
		m = &pb.QueueMessage{}
	}
	policy := &pb.QueueMessagePolicy{}
	if p := m.Policy; p != nil {
		policy.ExpirationSeconds, policy.DelaySeconds = p.ExpirationSeconds, p.DelaySeconds
		policy.MaxReceiveCount, policy.MaxReceiveQueue = p.MaxReceiveCount, p.MaxReceiveQueue
	}
	payload := &pb.QueueMessage{
		MessageID: m.MessageID,
		ClientID:  m.ClientID,
		Metadata:  m.Metadata,
		Body:      m.Body,
		Tags:      m.Tags,
		Policy:    storedPolicy(policy),
	}
	if payload.MessageID == "" {
		payload.MessageID = rand.Text()
	}
	out := outgoing{channel: m.Channel, payload: payload, policy: policy}
	if err := c.validateMessage(m, policy); err != nil {
		return out, err
	}
	size := payload.Size()
	if size+envelopeBytes > c.MaxMessageBytes {
		return out, errPayloadTooBig
	}
	out.size = int32(size)
	return out, nil
}

// storedPolicy is the policy that consumers see: the delay is over by then, and
// no limit means the highest.
func storedPolicy(sent *pb.QueueMessagePolicy) *pb.QueueMessagePolicy {
	policy := &pb.QueueMessagePolicy{
		ExpirationSeconds: sent.ExpirationSeconds,
		MaxReceiveCount:   sent.MaxReceiveCount,
		MaxReceiveQueue:   sent.MaxReceiveQueue,
	}
	if policy.MaxReceiveCount == 0 {
		policy.MaxReceiveCount = maxReceiveCount
	}
	return policy
}

// appendTo puts checked messages at the tail of their queues, visible when they
// are durable.
func (qs *queues) appendTo(s *sending, checked []outgoing, reserved int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now()
	moved := make([]*message, 0, len(checked))
	mutations := make([]mutation, 0, len(checked))
	for _, out := range checked {
		q, err := qs.queue(out.channel)
		if err != nil {
			refuse(s.results[out.index], err)
			continue
		}
		m := qs.newMessage(q, out, now)
		moved = append(moved, m)
		mutations = append(mutations, mutation{put: m.stored(), payload: out.payload})
		s.accepted = append(s.accepted, out.index)
		result := s.results[out.index]
		result.SentAt, result.ExpirationAt, result.DelayedTo = now.UnixNano(), m.expiresAt, m.dueAt
		if m.seq > 0 && !qs.quirks.NoPlaces { // a delayed one has no place yet
			kubemqwire.SetPlace(result, m.seq)
		}
	}
	s.commit = qs.journal.addReserved(mutations, reserved, func() { qs.enterPinned(moved) })
}

// newMessage gives a new message its id and place. Its queue is pinned until
// enterPinned.
func (qs *queues) newMessage(q *queue, out outgoing, now time.Time) *message {
	qs.lastID++
	m := &message{id: qs.lastID, queue: q, size: out.size, place: absent, expiry: absent}
	m.timestamp = now.UnixNano()
	if out.policy.DelaySeconds > 0 {
		m.dueAt = now.Add(seconds(out.policy.DelaySeconds)).UnixNano()
	} else {
		m.seq = q.nextSequence()
	}
	if out.policy.ExpirationSeconds > 0 {
		m.expiresAt = now.Add(seconds(out.policy.ExpirationSeconds) + seconds(out.policy.DelaySeconds)).UnixNano()
	}
	q.pins++
	q.counters.sentBytes += int64(out.size)
	qs.traffic.sent++
	qs.touch(q)
	return m
}

// enterPinned is the end of every commit that adds messages to queues.
func (qs *queues) enterPinned(messages []*message) {
	for _, m := range messages {
		m.queue.pins--
		qs.enter(m)
		qs.replaceDelayed(m)
	}
}
