package main

import (
	"context"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerCanvas registers tasks that are parts of chains, groups and chords.
func registerCanvas(r *tasks.Registry) {
	tasks.HandleArguments(r, "interop.lineage", lineage)
	tasks.Handle(r, "interop.add_after", addAfter, tasks.MaxRetries(10))
	tasks.Handle(r, "interop.errback", errback)
}

// lineage returns where in a workflow it ran, and with what.
func lineage(ctx context.Context, arguments tasks.Arguments) (any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"id": request.ID, "root_id": request.RootID, "parent_id": request.ParentID, "group_id": request.GroupID,
		"queue": request.Queue, "stamps": request.Stamps, "args": arguments.Args, "kwargs": arguments.Kwargs,
	}, nil
}

type addAfterInput struct {
	X        int64  `celery:"x"`
	Y        int64  `celery:"y"`
	Failures int    `celery:"failures"`
	Path     string `celery:"path"`
}

// addAfter adds after a number of retries, and leaves a line for each run.
func addAfter(ctx context.Context, in addAfterInput) (int64, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return 0, err
	}
	if err := addLine(in.Path, "start", request.ID); err != nil {
		return 0, err
	}
	if request.Retries < in.Failures {
		return 0, tasks.Retry(ctx, valueError{"not yet"}, tasks.Countdown(0))
	}
	return in.X + in.Y, addLine(in.Path, "end", request.ID)
}

type errbackInput struct {
	TaskID string `celery:"task_id"`
	Path   string `celery:"path"`
}

// errback leaves a line with the id of the task that failed.
func errback(_ context.Context, in errbackInput) (string, error) {
	return in.TaskID, addLine(in.Path, "go", in.TaskID)
}
