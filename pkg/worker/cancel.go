package worker

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// cancelLook is how often the state of a task that runs is looked at, where its
// caller may cancel it by storing one.
const cancelLook = time.Second

// watch cancels a handler whose caller has cancelled the task. What it returns ends
// the watching and must be called.
func (w *Worker) watch(ctx context.Context, j *job, cancel context.CancelCauseFunc) (end func()) {
	if !j.dialect.callersCancel() || !w.stores(j) || j.message.ID == "" {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, cancelLook) == nil {
			if w.cancelledByCaller(ctx, j) {
				cancel(tasks.ErrTaskCancelled)
				return
			}
		}
	}()
	return func() {
		stop()
		<-done
	}
}

// cancelledByCaller is false where the state can't be read: the task goes on.
func (*Worker) cancelledByCaller(ctx context.Context, j *job) bool {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	stored, err := glance(ctx, j)
	return err == nil && stored.Status == protocol.StateRevoked
}

// glance reads the state of a task as cheaply as the backend allows.
func glance(ctx context.Context, j *job) (protocol.Meta, error) {
	backend, _ := j.dialect.backend()
	if glancer, can := backend.(results.Glancer); can {
		return glancer.Glance(ctx, j.message.ID)
	}
	return backend.Fetch(ctx, j.message.ID)
}
