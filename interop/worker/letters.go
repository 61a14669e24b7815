package main

import (
	"context"
	"fmt"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerLetters registers tasks whose messages end in a dead-letter queue.
func registerLetters(r *tasks.Registry) {
	tasks.Handle(r, "interop.reject_again", rejectAgain, tasks.AcksLate())
}

// rejectAgain says which attempt has failed, and wants another one.
func rejectAgain(ctx context.Context, in messageInput) (any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	return nil, tasks.Reject(fmt.Sprintf("%s, attempt %d", in.Message, request.Attempt), true)
}
