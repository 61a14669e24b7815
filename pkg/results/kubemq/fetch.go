package kubemq

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// fetchMost is how many states of one task are looked at. More than two are
	// there only when workers died in the middle of a Store.
	fetchMost = 32
	// waitPause is between two peeks of Wait, on servers whose peek doesn't wait
	// for more than there is.
	waitPause = 200 * time.Millisecond
)

// Fetch reads the newest state of a task, or the first SUCCESS if there is one;
// results.ErrNotFound when there is none. Servers that make a peek wait need a
// second for everything but SUCCESS and nothing.
func (b *Backend) Fetch(ctx context.Context, taskID string) (protocol.Meta, error) {
	channel, err := b.channel(taskID)
	if err != nil {
		return protocol.Meta{}, err
	}
	empty, err := b.client.IsEmpty(ctx, channel)
	switch {
	case err != nil:
		return protocol.Meta{}, fmt.Errorf("results: read the result of task %q: %w", taskID, err)
	case empty:
		return protocol.Meta{}, fmt.Errorf("results: task %q: %w", taskID, results.ErrNotFound)
	}
	// One is answered at once if there is any, and mostly it is all there is.
	meta, _, err := b.peek(ctx, channel, taskID, 1)
	if err == nil && meta.Status != protocol.StateSuccess {
		meta, _, err = b.peek(ctx, channel, taskID, fetchMost)
	}
	return meta, err
}

// Wait returns the state of a task once it is final.
func (b *Backend) Wait(ctx context.Context, taskID string) (protocol.Meta, error) {
	channel, err := b.channel(taskID)
	if err != nil {
		return protocol.Meta{}, err
	}
	seen := 0
	for {
		begun := time.Now()
		// One more than is known: such a peek waits on the server for news.
		meta, n, err := b.peek(ctx, channel, taskID, min(seen+1, maxPeek))
		switch {
		case ctx.Err() != nil:
			return protocol.Meta{}, fmt.Errorf("results: wait for task %q: %w", taskID, context.Cause(ctx))
		case err == nil && meta.Status.Ready():
			return meta, nil
		case err != nil && !errors.Is(err, results.ErrNotFound) && (n > 0 || !kubemq.Temporary(err)):
			return protocol.Meta{}, err
		}
		seen = n
		if rest := waitPause - time.Since(begun); rest > 0 {
			if err := pause(ctx, rest); err != nil {
				return protocol.Meta{}, fmt.Errorf("results: wait for task %q: %w", taskID, err)
			}
		}
	}
}

// peek reads the state of a task from its oldest messages, and says how many
// there were.
func (b *Backend) peek(ctx context.Context, channel, taskID string, most int) (protocol.Meta, int, error) {
	messages, err := b.client.Peek(ctx, channel, most, peekWait)
	if err != nil {
		return protocol.Meta{}, 0, fmt.Errorf("results: read the result of task %q: %w", taskID, err)
	}
	meta, err := newest(messages, taskID)
	return meta, len(messages), err
}

// newest is the last state of a task, or its first SUCCESS. Messages of another
// task, whose id gives the same queue name, don't count.
func newest(messages []*pb.QueueMessage, taskID string) (protocol.Meta, error) {
	var last protocol.Meta
	failure := fmt.Errorf("results: task %q: %w", taskID, results.ErrNotFound)
	for _, message := range messages {
		meta, err := protocol.DecodeMeta(message.Body)
		switch {
		case err != nil:
			failure = fmt.Errorf("results: read the result of task %q: %w", taskID, err)
		case meta.TaskID != taskID:
		case meta.Status == protocol.StateSuccess:
			return meta, nil
		default:
			last = meta
		}
	}
	if last.Status == "" {
		return protocol.Meta{}, failure
	}
	return last, nil
}
