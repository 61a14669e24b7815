// Package kubemq stores results in a KubeMQ broker, in the form of kubemq-celery
// unless another Form is given: one queue for each task, "celery-result-<task id>",
// whose message is the result. Readers peek, so a result stays for every reader until
// it expires.
//
// A queue can't replace a message. A state that follows another is sent first, and
// the older messages are removed then, so that a reader who peeks at the queue
// finds a state at any moment and never an older one than before. A reader like
// kubemq-celery takes the oldest message and sees the new state when the older
// ones are gone; Fetch takes the newest.
package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// DefaultPrefix is kubemq-celery's (result_channel_prefix).
	DefaultPrefix = "celery-result-"
	// DefaultMaxExpires is the longest expiry that kubemq-celery asks for. Servers
	// may take less.
	DefaultMaxExpires = 86_400 * time.Second
	// serverMaxExpires is the longest that a server takes unless it is configured
	// otherwise.
	serverMaxExpires = 43_200 * time.Second
	// maxChannelBytes is the longest name of a queue.
	maxChannelBytes = 255
	// codeExpires is the server's number for an expiry that is too long.
	codeExpires = 133
)

// Config describes a backend.
type Config struct {
	// Connection says how to reach the broker. Of its hooks, Retrying, Restored (at
	// the start) and Note are used.
	Connection kubemq.Config
	// Prefix comes before the task id in the queue's name; empty means
	// DefaultPrefix.
	Prefix string
	// MaxExpires is the longest expiry; 0 means DefaultMaxExpires. It is lowered
	// when the server refuses one.
	MaxExpires time.Duration
	// ExactIDs refuses task ids that are not a queue's name as they are, with
	// transport.ErrName. Else several ids may share a queue, as in kubemq-celery, and a
	// result takes the place of another task's.
	ExactIDs bool
	// Form is how states are written, read and kept; nil means kubemq-celery's.
	Form Form
}

// Backend is a results.Backend over one connection to a broker.
type Backend struct {
	client  *kubemq.Client
	hooks   transport.Hooks
	prefix  string
	form    Form
	exact   bool
	longest atomic.Int64 // time.Duration
}

var (
	_ results.Backend = (*Backend)(nil)
	_ results.Glancer = (*Backend)(nil)
)

// New checks config and prepares the connection; Start makes it.
func New(config Config) (*Backend, error) {
	if config.Prefix == "" {
		config.Prefix = DefaultPrefix
	}
	if config.MaxExpires == 0 {
		config.MaxExpires = DefaultMaxExpires
	}
	if config.MaxExpires < time.Second {
		return nil, fmt.Errorf("results: kubemq: max expires %s is below 1s", config.MaxExpires)
	}
	if name, err := kubemq.ChannelName(config.Prefix + "x"); err != nil || name != config.Prefix+"x" {
		return nil, fmt.Errorf("results: kubemq: prefix %q can't begin a channel name", config.Prefix)
	}
	if config.Form == nil {
		config.Form = celery{}
	}
	client, err := kubemq.NewClient(config.Connection)
	if err != nil {
		return nil, err
	}
	b := &Backend{client: client, hooks: config.Connection.Hooks, prefix: config.Prefix, form: config.Form, exact: config.ExactIDs}
	b.longest.Store(int64(config.MaxExpires))
	return b, nil
}

// Start returns once the broker has answered; it tries until ctx ends.
func (b *Backend) Start(ctx context.Context) error {
	retried := false
	err := b.client.Connect(ctx, func(err error, attempt int, wait time.Duration) {
		retried = true
		if b.hooks.Retrying != nil {
			b.hooks.Retrying(err, attempt, wait)
		}
	})
	if err == nil && retried && b.hooks.Restored != nil {
		b.hooks.Restored()
	}
	return err
}

// Stop closes the connection.
func (b *Backend) Stop() error { return b.client.Close() }

// Store sends the state and removes the older ones. A task that has SUCCESS keeps
// it, and the new state is removed instead (Form.Keeps). The error wraps
// transport.ErrUnconfirmed when it is not known whether the state is stored;
// storing it again is safe.
func (b *Backend) Store(ctx context.Context, meta protocol.Meta, options results.StoreOptions) error {
	message, err := b.message(meta)
	if err != nil {
		return err
	}
	if err := b.send(ctx, message, options.Expires); err != nil {
		return fmt.Errorf("results: store the result of task %q: %w", meta.TaskID, err)
	}
	if options.First || message.Attributes.GetSequence() == 1 {
		return nil // nothing is in front of it
	}
	if err := b.removeOlder(ctx, message, meta.TaskID); err != nil {
		return fmt.Errorf("results: remove older results of task %q: %w", meta.TaskID, err)
	}
	return nil
}

// Forget removes everything that is stored for a task.
func (b *Backend) Forget(ctx context.Context, taskID string) error {
	channel, err := b.channel(taskID)
	if err != nil {
		return err
	}
	if _, err := b.client.Purge(ctx, channel); err != nil {
		return fmt.Errorf("results: forget task %q: %w", taskID, err)
	}
	return nil
}

// channel is the name of a task's queue.
func (b *Backend) channel(taskID string) (string, error) {
	name, err := kubemq.ChannelName(taskID)
	if err != nil {
		return "", fmt.Errorf("results: task id %.100q: %w", taskID, err)
	}
	if b.exact && name != taskID {
		return "", fmt.Errorf("results: task id %.100q stands for the queue of %q: %w", taskID, name, transport.ErrName)
	}
	name = b.prefix + name
	if len(name) > maxChannelBytes {
		return "", fmt.Errorf("results: task id of %d bytes: queue name exceeds %d: %w",
			len(taskID), maxChannelBytes, transport.ErrName)
	}
	return name, nil
}

// message is a state in the backend's form, without an expiry.
func (b *Backend) message(meta protocol.Meta) (*pb.QueueMessage, error) {
	channel, err := b.channel(meta.TaskID)
	if err != nil {
		return nil, err
	}
	body, metadata, err := b.form.Encode(meta)
	if err != nil {
		return nil, fmt.Errorf("results: encode the result of task %q: %w", meta.TaskID, err)
	}
	return &pb.QueueMessage{
		Channel: channel, Body: body, Metadata: metadata, Policy: &pb.QueueMessagePolicy{},
	}, nil
}

// send sends message with an expiry that the server takes: KubeMQ can't keep a
// message for ever.
func (b *Backend) send(ctx context.Context, message *pb.QueueMessage, expires time.Duration) error {
	for {
		longest := time.Duration(b.longest.Load())
		if expires <= 0 || expires > longest {
			expires = longest
		}
		message.Policy.ExpirationSeconds = int32((expires + time.Second - 1) / time.Second)
		err := b.client.SendTogether(ctx, message)
		var refused *kubemq.ServerError
		if !errors.As(err, &refused) || refused.Code != codeExpires || expires <= time.Second {
			return err
		}
		b.learn(expires)
	}
}

// learn lowers the longest expiry after the server refused one: to what servers
// usually take, then by half.
func (b *Backend) learn(refused time.Duration) {
	lower := refused / 2
	if refused > serverMaxExpires {
		lower = serverMaxExpires
	}
	known := b.longest.Load()
	if int64(lower) >= known || !b.longest.CompareAndSwap(known, int64(lower)) {
		return // somebody else has learnt it
	}
	if b.hooks.Note != nil {
		b.hooks.Note(fmt.Sprintf("kubemq: the broker refuses results that expire after %s; the longest is now taken to be %s",
			refused, lower.Truncate(time.Second)))
	}
}
