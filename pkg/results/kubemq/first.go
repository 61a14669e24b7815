package kubemq

import (
	"context"
	"errors"
	"fmt"

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
	first, _, err := b.peek(ctx, message.Channel, meta.TaskID, 1)
	if errors.Is(err, results.ErrNotFound) {
		err = fmt.Errorf("results: the result of task %q expired or was forgotten at once: %w", meta.TaskID, err)
	}
	return first, err
}
