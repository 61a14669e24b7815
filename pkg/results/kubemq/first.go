package kubemq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
)

// StoreFirst stores a SUCCESS unless the task has one that has not expired, and
// returns the one that it has then: of several that are stored at the same time all
// callers get the same. It is not for ids that Store is used for too.
//
// A queue keeps the order in which messages were sent. Nothing is removed, so the
// oldest stays the first for everybody who peeks, until it expires; those that came
// later expire unseen.
func (b *Backend) StoreFirst(ctx context.Context, meta protocol.Meta, options results.StoreOptions) (protocol.Meta, error) {
	if meta.Status != protocol.StateSuccess {
		return protocol.Meta{}, fmt.Errorf("results: store the first result of task %q: the state is %s, not SUCCESS", meta.TaskID, meta.Status)
	}
	message, err := b.message(meta)
	if err != nil {
		return protocol.Meta{}, err
	}
	if err := b.send(ctx, message, options.Expires); err != nil {
		return protocol.Meta{}, fmt.Errorf("results: store the first result of task %q: %w", meta.TaskID, err)
	}
	first, err := b.first(ctx, message.Channel, meta.TaskID)
	if errors.Is(err, results.ErrNotFound) {
		err = fmt.Errorf("results: the result of task %q expired or was forgotten at once: %w", meta.TaskID, err)
	}
	return first, err
}

// first reads the first SUCCESS of a task. It must not take a later one for it because
// the first is hidden by somebody's peek: either nothing was ever sent before, or what
// is seen is all that there is, before and after.
func (b *Backend) first(ctx context.Context, channel, taskID string) (protocol.Meta, error) {
	for range removeAttempts {
		messages, complete, err := b.states(ctx, channel, maxPeek)
		if err != nil {
			return protocol.Meta{}, fmt.Errorf("results: read the result of task %q: %w", taskID, err)
		}
		alone := len(messages) > 0 && messages[0].Attributes.GetSequence() == 1
		if !alone && complete {
			waiting, told, err := b.client.Waiting(ctx, channel)
			if err != nil {
				return protocol.Meta{}, fmt.Errorf("results: read the result of task %q: %w", taskID, err)
			}
			complete = !told || waiting <= int64(len(messages)) || len(messages) == maxPeek
		}
		if alone || complete {
			return newest(b.form, messages, taskID)
		}
		if err := pause.For(ctx, removePause/2+rand.N(removePause)); err != nil { //nolint:gosec // nothing to guess
			return protocol.Meta{}, err
		}
	}
	return protocol.Meta{}, fmt.Errorf("results: read the first result of task %q: %w", taskID, errBusy)
}
