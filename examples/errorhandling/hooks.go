package main

import (
	"context"
	"log/slog"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func registerHooks(r *tasks.Registry) {
	tasks.Handle(r, "guide.invoice", importFile,
		tasks.OnFailure(func(_ context.Context, request *tasks.Request, err error) {
			slog.Error("no invoice", "args", request.Args, "error", err)
		}),
		tasks.OnExhausted(func(_ context.Context, request *tasks.Request, _ *tasks.ExhaustedError) {
			pageSomeone(request.ID)
		}))
	r.AddHook(audit{})
}

// audit is told of every task: Celery's signals.
type audit struct{}

func (audit) OnPrerun(_ context.Context, request *tasks.Request) {
	slog.Debug("runs", "task", request.Task, "id", request.ID)
}

func (audit) OnPostrun(_ context.Context, request *tasks.Request, state string, _ any, err error) {
	slog.Info("ended", "task", request.Task, "id", request.ID, "state", state, "error", err)
}

func (audit) OnDeadLetter(_ context.Context, taskID string, err error) {
	slog.Warn("given up", "id", taskID, "error", err)
}
