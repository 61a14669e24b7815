// Package transport holds what the engine needs of a broker: a delivery that
// can be settled, a consumer that asks for messages, a publisher that waits for
// the broker's confirmation, and the capabilities that say what a broker can't
// do, so that the engine asks instead of assuming.
//
// A broker is a subpackage (transport/kubemq); every broker passes the
// conformance suite in transporttest.
package transport

import (
	"context"
	"time"
)

// Delivery is a message handed to this worker and not yet settled. Exactly one
// of Ack, Nack, Requeue, Postpone, Release and DeadLetter settles it; a second call returns
// ErrSettled, but for one Requeue or DeadLetter after an Ack: they send their copy
// alone then, which is how a message that was acked early comes back. A settlement
// returns nil only once the broker is known to have applied it. One that fails
// before anything was done to the message, such as DeadLetter with ErrName, leaves
// the delivery as it was.
type Delivery interface {
	// Body is the kombu envelope as received. The caller must not change it.
	Body() []byte
	// Queue is the queue's Celery name, before any mapping to broker names.
	Queue() string
	// Attempt counts the deliveries of this message so far, this one included;
	// at least 1.
	Attempt() int
	// Redelivered tells whether the message may have been handed out before.
	Redelivered() bool
	// Limit is what the message's producer asked for: after so many attempts the
	// message goes to queue and doesn't come back (KubeMQ's MaxReceiveCount and
	// MaxReceiveQueue). 0 and "" where nothing is asked for.
	Limit() (attempts int, queue string)
	// NoteError notes why this attempt failed. What Requeue sends carries the first
	// error that was noted, on this delivery or an earlier one, and DeadLetter keeps
	// it as FirstError.
	NoteError(text string)

	// Ack says that the message is done. It is so for this consumer also where the
	// error wraps ErrUnconfirmed: if the broker delivers it again, it is acked again.
	Ack(ctx context.Context) error
	// Nack hands the message back now, to any worker. It counts as an attempt.
	Nack(ctx context.Context) error
	// Requeue hands the message back after a delay. It counts as an attempt. The
	// delay is rounded down to Capabilities.DelayTick and cut to MaxDelay, so that
	// a message with a longer way to go comes back for the next hop.
	Requeue(ctx context.Context, after time.Duration) error
	// Postpone is Requeue for a message that is not due yet: it does not count as an
	// attempt.
	Postpone(ctx context.Context, after time.Duration) error
	// Release hands the message back now, unprocessed, as at a shutdown. It does
	// not count as an attempt.
	Release(ctx context.Context) error
	// DeadLetter moves the message to letter.Queue, body untouched, and keeps the
	// reason beside it. The copy is confirmed before the original is acked; where
	// only the latter fails the error wraps ErrCopied.
	DeadLetter(ctx context.Context, letter DeadLetter) error
}

// Dated is a Delivery of a broker that notes when messages come.
type Dated interface {
	Delivery
	// Queued is when the message became ready to be taken, by the broker's clock: when
	// it was sent, or its delay was over. Zero where this one's time is not known.
	Queued() time.Time
}

// DeadLetter says where a message goes that this worker can't process, and why.
// Brokers keep it beside the message and may cut long texts. All but Queue and
// Reason may be empty.
type DeadLetter struct {
	// Queue receives the message.
	Queue string
	// Reason is a short word for machines, such as "undecodable".
	Reason string
	// Detail is the sentence for people, such as the decoder's error: the last error.
	Detail string
	// FirstError is the error of the first attempt, where an earlier one is known;
	// empty, it is the one that came with the delivery (Delivery.NoteError).
	FirstError string
	// Traceback is that of the last error; its end is what is kept of a long one.
	Traceback string
	// Task and ID are the task's, where the message could be decoded.
	Task, ID string
	// Worker is the node name of the worker that gave it up, Time when.
	Worker string
	Time   time.Time
}

// ReceiveRequest says how much a consumer may ask for.
type ReceiveRequest struct {
	// Slots is the number of reserved slots, at least 1: no more deliveries than
	// that are handed over by the call.
	Slots int
	// Wait bounds how long to wait for a first message; the broker may wait
	// longer (Capabilities.MinWait). 0 asks for what is ready now.
	Wait time.Duration
	// AutoAck has the broker ack each message as it hands it over: what has not been
	// worked on is lost in a crash. Ack of such a delivery does nothing; every other
	// settlement sends a copy. All requests of a consumer say the same.
	AutoAck bool
}

// SentNotifier is a Delivery that tells when its settlement is on its way.
type SentNotifier interface {
	Delivery
	// NotifySent has sent called once at most, when the broker was sent what settles
	// the message and it is not known yet whether it was applied: what is asked for
	// from then on comes after it. It must return at once. It may come from any
	// goroutine, or not at all where the broker is better asked later. Only whoever
	// was handed the delivery calls NotifySent, before settling it.
	NotifySent(sent func())
}

// StartNoter is a Delivery of a broker that doesn't count the deliveries that ended
// with a crash of the worker (Capabilities.CountsAttempts), but can keep a note.
type StartNoter interface {
	// NoteStart stores, with the broker, that this message is about to be worked on,
	// and returns how many earlier deliveries of it came to nothing: the workers that
	// had it are gone, or lost their connection, or nacked it. Attempt counts them all
	// from then on. The notes go with the settlement; Release takes back this one.
	NoteStart(ctx context.Context) (wasted int, err error)
}

// Consumer takes messages from one queue.
type Consumer interface {
	// Receive asks for up to request.Slots messages and calls deliver for each as
	// it arrives, one call at a time. It returns when everything it asked for is
	// answered, or sooner, so that the caller can come back with slots that have
	// become free: no delivery comes after it has returned. A cancelled ctx ends
	// the call early and is not reported as an error. What arrives late goes to the
	// next Receive, or back to the queue if that doesn't follow at once.
	// A lost connection is waited out inside (reported to Hooks), not returned;
	// an error means that this request can't succeed, such as ErrName or ErrGaveUp.
	//
	// One Receive at a time per consumer.
	Receive(ctx context.Context, request ReceiveRequest, deliver func(Delivery)) error
	// Close ends the consumer. Unsettled deliveries go back to the queue.
	Close() error
}

// Outgoing is a message to be published.
type Outgoing struct {
	// Body is the kombu envelope.
	Body []byte
	// Headers is the JSON object of the Celery headers, which some brokers keep
	// beside the body (KubeMQ's Metadata). May be empty.
	Headers []byte
	// Priority is Celery's priority, 0 to 9.
	Priority int
	// Delay keeps the message from consumers for so long. Brokers round it down
	// to Capabilities.DelayTick; longer than Capabilities.MaxDelay is ErrDelay.
	Delay time.Duration
	// Expires drops the message when it was not consumed for so long (from the
	// end of the delay). 0 = never.
	Expires time.Duration
	// Attempts carries the number of earlier deliveries with a copy that the
	// worker publishes itself; 0 for a new message.
	Attempts int
}

// Publisher sends messages.
type Publisher interface {
	// Publish returns nil only after the broker confirmed the message. An error
	// that wraps ErrUnconfirmed leaves it open whether the message is stored:
	// sending again may duplicate it, not sending again may lose it.
	Publish(ctx context.Context, queue string, message Outgoing) error
}

// Subscription is one subscriber of a broadcast channel.
type Subscription interface {
	// Close ends the subscription and waits for a running callback.
	Close() error
}

// Broadcaster is fanout: what remote control and events travel on.
type Broadcaster interface {
	// Broadcast hands body to everyone subscribed to channel right now. Nothing
	// is stored. Brokers that have room for tags beside a body send them, for who
	// reads them without this module; Subscribe doesn't. They may be nil.
	Broadcast(ctx context.Context, channel string, body []byte, tags map[string]string) error
	// Subscribe calls receive for each broadcast, one at a time, until the
	// subscription is closed; it resubscribes after a lost connection, for ever.
	// It returns once the broker has taken the subscription, as far as the broker
	// tells.
	Subscribe(ctx context.Context, channel string, receive func(body []byte)) (Subscription, error)
}

// Capabilities says what a broker can and can't do.
type Capabilities struct {
	// DelayTick is the resolution of Outgoing.Delay; 0 = no server-side delay.
	DelayTick time.Duration
	// MaxDelay is the longest Outgoing.Delay; longer waits go in hops.
	MaxDelay time.Duration
	// Priorities tells whether the broker orders by priority.
	Priorities bool
	// CountsAttempts tells whether the broker counts deliveries that ended in a
	// crash of the worker.
	CountsAttempts bool
	// Lease is how long a delivery may stay unsettled; 0 = as long as the
	// connection lives.
	Lease time.Duration
	// MinWait is the shortest wait of a Receive that finds too few messages; a
	// broker that answers at once has 0.
	MinWait time.Duration
	// Fanout tells whether Broadcaster works.
	Fanout bool
	// MaxMessage is the largest Outgoing.Body in bytes; 0 = unknown.
	MaxMessage int
}

// Transport is a connection to one broker.
type Transport interface {
	Publisher
	Broadcaster
	// Start returns once the broker has answered. It keeps trying, with capped
	// and jittered back-off, until ctx ends.
	Start(ctx context.Context) error
	// Consumer opens a consumer for a queue. A name that the broker can't take is
	// ErrName.
	Consumer(queue string) (Consumer, error)
	// Capabilities is valid after Start.
	Capabilities() Capabilities
	// Stop closes the connection and waits for what runs inside. It is idempotent.
	Stop() error
}
