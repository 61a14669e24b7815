package kubemq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/internal/pause"
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
	// statesLooks bounds how often states looks for what is hidden; each takes a
	// second on servers whose peek waits.
	statesLooks = 10
)

// Fetch reads the newest state of a task, or the first that is kept (SUCCESS);
// results.ErrNotFound when there is none.
func (b *Backend) Fetch(ctx context.Context, taskID string) (protocol.Meta, error) {
	channel, err := b.channel(taskID)
	if err != nil {
		return protocol.Meta{}, err
	}
	messages, _, err := b.states(ctx, channel, fetchMost)
	if err != nil {
		return protocol.Meta{}, fmt.Errorf("results: read the result of task %q: %w", taskID, err)
	}
	return newest(b.form, messages, taskID)
}

// Glance reads the oldest state of a task, which is the only one but for the moment in
// which another is stored. It doesn't ask the server for the number of states, which
// takes longer with each queue there is (docs/protocol.md §16).
func (b *Backend) Glance(ctx context.Context, taskID string) (protocol.Meta, error) {
	channel, err := b.channel(taskID)
	if err != nil {
		return protocol.Meta{}, err
	}
	meta, _, err := b.peek(ctx, channel, taskID, 1)
	return meta, err
}

// states are the oldest messages of a task's queue, at most so many, in the order in
// which they were sent. While somebody else peeks, the 2023 server shows later ones
// only, or none (docs/protocol.md §16): so it looks again until as many are there as
// the server counts, and complete says whether they were.
func (b *Backend) states(
	ctx context.Context, channel string, limit int,
) (messages []*pb.QueueMessage, complete bool, err error) {
	for range statesLooks {
		waiting, told, err := b.client.Waiting(ctx, channel)
		if err != nil {
			return nil, false, err
		}
		if told && waiting == 0 {
			return nil, true, nil
		}
		// So many are answered at once.
		most := limit
		if told {
			most = int(min(waiting, int64(limit)))
		}
		if messages, err = b.client.Peek(ctx, channel, most, peekWait); err != nil {
			return nil, false, err
		}
		slices.SortFunc(messages, func(one, other *pb.QueueMessage) int {
			return cmp.Compare(one.Attributes.GetSequence(), other.Attributes.GetSequence())
		})
		if !told || len(messages) == most {
			return messages, true, nil
		}
		if err := pause.For(ctx, removePause/2+rand.N(removePause)); err != nil { //nolint:gosec // nothing to guess
			return nil, false, err
		}
	}
	return messages, false, nil
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
			if err := pause.For(ctx, rest); err != nil {
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
	meta, err := newest(b.form, messages, taskID)
	return meta, len(messages), err
}

// newest is the last state of a task, or the first that is kept. Messages of another
// task, whose id gives the same queue name, don't count.
func newest(form Form, messages []*pb.QueueMessage, taskID string) (protocol.Meta, error) {
	var last protocol.Meta
	failure := fmt.Errorf("results: task %q: %w", taskID, results.ErrNotFound)
	for _, message := range messages {
		meta, err := form.Decode(message.Body)
		switch {
		case err != nil:
			failure = fmt.Errorf("results: read the result of task %q: %w", taskID, err)
		case meta.TaskID != taskID:
		case form.Keeps(meta.Status):
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
