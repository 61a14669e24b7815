package broker

import (
	"context"
	"time"
)

const (
	// diskFlushBytes is how much may be deleted before the space is asked back.
	diskFlushBytes = 64 << 20
	// statisticsDelay is what Pebble gets to count the garbage in new files,
	// which it does in the background.
	statisticsDelay = time.Second
)

// countRemoved notes what a commit deleted, and wakes freeSpace when it is a lot.
func (s *diskStore) countRemoved(mutations []mutation) {
	for i := range mutations {
		if removed := mutations[i].remove; removed != nil {
			s.removed += int64(removed.size)
		}
	}
	if s.removed < diskFlushBytes {
		return
	}
	s.removed = 0
	select {
	case s.deleted <- struct{}{}:
	default:
	}
}

// freeSpace gives the space of deleted messages back until ctx ends. Pebble does
// so by itself as new messages come; when none come, the deletions would stay in
// memory and what they delete on the disk. An error is not looked at: if it
// matters, the next commit has it too.
func (s *diskStore) freeSpace(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.deleted:
		}
		s.flush(ctx)
		delay := time.NewTimer(statisticsDelay)
		wait(ctx, delay.C)
		delay.Stop()
		if ctx.Err() == nil && s.mostlyGarbage() {
			s.fault.protect(func() { _ = s.db.Compact(ctx, []byte{keyPayload}, []byte{keyState + 1}, false) })
		}
	}
}

// flush writes what is in memory to tables, and waits for it.
func (s *diskStore) flush(ctx context.Context) {
	var flushed <-chan struct{}
	if s.fault.protect(func() { flushed, _ = s.db.AsyncFlush() }) && flushed != nil {
		wait(ctx, flushed)
	}
}

// wait returns when c has something or is closed, or when ctx ends.
func wait[T any](ctx context.Context, c <-chan T) {
	select {
	case <-ctx.Done():
	case <-c:
	}
}

// mostlyGarbage reports whether more than half of the files is deleted messages:
// then it costs less to write the rest anew than it frees.
func (s *diskStore) mostlyGarbage() bool {
	metrics := s.db.Metrics()
	total := metrics.Total()
	return int64(2*metrics.Table.Garbage.PointDeletionsBytesEstimate) > total.TablesSize
}
