package canvas

import (
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// message makes the message of a call with these options. inParent tells whether
// it is a child of the task that publishes it.
func (s *sender) message(sig protocol.Signature, merged options) (outgoing Outgoing, inParent bool, err error) {
	o, err := protocol.DecodeCallOptions(s.Routes.route(sig.Task, s.inherit(merged)))
	if err != nil {
		return Outgoing{}, false, err
	}
	m := &protocol.Message{
		Protocol: protocol.Protocol2,
		Task:     sig.Task, ID: o.TaskID, Shadow: o.Shadow,
		RootID: o.RootID, ParentID: o.ParentID, GroupID: o.GroupID, GroupIndex: o.GroupIndex,
		Retries: o.Retries, ReplacedTaskNesting: o.ReplacedTaskNesting,
		ETA: s.eta(o), Expires: s.expires(o), TimeLimit: o.TimeLimit, SoftTimeLimit: o.SoftTimeLimit,
		ArgsRepr: o.ArgsRepr, KwargsRepr: o.KwargsRepr, Origin: s.Origin, IgnoreResult: o.IgnoreResult,
		StampedHeaders: o.StampedHeaders, Stamps: o.Stamps, CustomHeaders: o.Headers,
		Args: sig.Args, Kwargs: sig.Kwargs,
		Callbacks: o.Link, Errbacks: o.LinkError, Chain: o.Chain, Chord: o.Chord,
		ReplyTo: o.ReplyTo, CorrelationID: o.TaskID, Queue: s.queue(o),
	}
	if o.Priority != nil {
		m.Priority = *o.Priority
	}
	if o.Origin != "" {
		m.Origin = o.Origin
	}
	return Outgoing{
		Message: m, Serializer: o.Serializer, Compression: o.Compression, Transient: o.Transient, Properties: o.Properties,
	}, o.AddToParent, nil
}

// inherit fills in what a call takes from the task that makes it, where nobody
// said it.
func (s *sender) inherit(merged options) options {
	if merged["root_id"] != nil && merged["parent_id"] != nil {
		return merged
	}
	inherited := options{"root_id": s.root(), "parent_id": s.parent.ID}
	if s.InheritPriority {
		inherited["priority"] = int64(s.parent.Priority)
	}
	return underlay(inherited, merged)
}

func (s *sender) eta(o protocol.CallOptions) time.Time {
	if o.Countdown == 0 {
		return o.ETA
	}
	return s.later(o.Countdown)
}

func (s *sender) expires(o protocol.CallOptions) time.Time {
	if o.ExpiresIn == nil {
		return o.Expires
	}
	return s.later(*o.ExpiresIn)
}

func (s *sender) later(d time.Duration) time.Time {
	t := s.now.Add(d)
	if s.Timezone != nil {
		t = t.In(s.Timezone)
	}
	return t
}

// queue follows Celery: the queue that is named; else an exchange and a routing
// key, which mean something only together; else the default queue. With direct
// exchanges, the only ones there are without RabbitMQ, the routing key is the
// queue.
func (s *sender) queue(o protocol.CallOptions) string {
	switch {
	case o.Queue != "":
		return o.Queue
	case o.Exchange != "" && o.RoutingKey != "":
		return o.RoutingKey
	}
	return s.DefaultQueue
}
