package protocol

import "time"

// Version numbers of Celery's message protocol.
const (
	Protocol1 = 1
	Protocol2 = 2
)

// Message is one task message, decoded: what to run, with what, and what
// follows. It holds every header that Celery defines under its own name and the
// rest in CustomHeaders, so that encoding it again loses nothing.
type Message struct {
	// Protocol is the version the message came in, Protocol1 or Protocol2.
	Protocol int
	// Task is the registered name; Shadow, if set, the name to show instead.
	Task, ID, Shadow string
	// RootID, ParentID and GroupID are empty where the message has null.
	RootID, ParentID, GroupID string
	// GroupIndex is the position in the group, nil where unknown.
	GroupIndex *int
	// Retries so far.
	Retries int
	// ETA and Expires are zero where the message has none.
	ETA, Expires time.Time
	// TimeLimit and SoftTimeLimit are 0 where the message has none.
	TimeLimit, SoftTimeLimit time.Duration
	// ArgsRepr and KwargsRepr are the producer's display forms, for logs only.
	ArgsRepr, KwargsRepr string
	// Origin is the node that published.
	Origin string
	// IgnoreResult is the caller's wish; nil leaves it to the task.
	IgnoreResult *bool
	// ReplacedTaskNesting is the depth of Task.replace.
	ReplacedTaskNesting int
	// StampedHeaders names the stamps, Stamps holds them.
	StampedHeaders []string
	Stamps         map[string]any
	// Redelivered is the mark that a transport put on a restored message.
	Redelivered bool
	// CustomHeaders are the headers that are not Celery's own
	// (apply_async(headers=...)), request.headers in Celery.
	CustomHeaders map[string]any

	// Args is a []any in every message that Python sends. Null and other shapes
	// are kept as they came, because Celery stores a TypeError for them instead of
	// refusing the message: see Positional.
	Args   any
	Kwargs map[string]any

	// Callbacks (link), Errbacks (link_error), Chain (the last element is the next
	// step) and Chord (the body) are the continuations.
	Callbacks, Errbacks, Chain []Signature
	Chord                      *Signature

	// ReplyTo, CorrelationID, Priority and Queue (the routing key) come from the
	// properties, ContentType, ContentEncoding and Compression from the envelope:
	// how the message was serialized, so that a retry keeps it.
	ReplyTo, CorrelationID                    string
	Priority                                  int
	Queue                                     string
	ContentType, ContentEncoding, Compression string
}

// Signature is the JSON form of a canvas signature.
type Signature struct {
	Task   string
	Args   []any
	Kwargs map[string]any
	// Options are apply_async options: task_id, queue, link, ...
	Options map[string]any
	// SubtaskType is "", "chain", "group" or "chord".
	SubtaskType string
	Immutable   bool
	// ChordSize is sent by Celery 5.0 only.
	ChordSize *int
}
