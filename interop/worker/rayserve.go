package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerRayServe registers tasks that show what a queue of Ray Serve's protocol does,
// and the hook that is its on_dlq.
func registerRayServe(r *tasks.Registry) {
	tasks.Handle(r, "interop.fail_first", failFirst)
	tasks.Handle(r, "interop.progress", progress)
	tasks.Handle(r, "interop.until_cancelled", untilCancelled)
	r.AddHook(onDLQ{})
}

type failFirstInput struct {
	Path  string `celery:"path"`
	Times int    `celery:"times"`
}

// failFirst fails so many times, and then tells which delivery it was.
func failFirst(ctx context.Context, in failFirstInput) (int, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return 0, err
	}
	if err := addLine(in.Path, "start", request.ID); err != nil {
		return 0, err
	}
	if request.Attempt <= in.Times {
		return 0, valueError{fmt.Sprintf("no GPU, delivery %d", request.Attempt)}
	}
	return request.Attempt, nil
}

type progressInput struct {
	Steps int `celery:"steps"`
}

// progress tells of each of its steps.
func progress(ctx context.Context, in progressInput) (int, error) {
	for i := range in.Steps {
		percent := 100 * float64(i+1) / float64(in.Steps)
		if err := tasks.Progress(ctx, percent, fmt.Sprintf("step %d", i+1)); err != nil {
			return 0, err
		}
	}
	return in.Steps, nil
}

type pathInput struct {
	Path string `celery:"path"`
}

// untilCancelled runs until its caller cancels it, which leaves a line.
func untilCancelled(ctx context.Context, in pathInput) (any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	if err := addLine(in.Path, "start", request.ID); err != nil {
		return nil, err
	}
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), tasks.ErrTaskCancelled) {
		if err := addLine(in.Path, "cancelled", request.ID); err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// onDLQ prints a line that the tests count.
type onDLQ struct{}

func (onDLQ) OnDeadLetter(_ context.Context, taskID string, err error) {
	fmt.Fprintf(os.Stderr, "on_dlq %s %v\n", taskID, err)
}
