package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

var (
	errRateLimit = errors.New("429")
	errGone      = errors.New("410")
)

// StatusError is what the site answered.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return fmt.Sprintf("status %d", e.Code) }

func registerAutomatic(r *tasks.Registry) {
	tasks.Handle(r, "guide.crawl", crawl,
		tasks.AutoRetryFor(tasks.ErrorIs(errRateLimit, errTimeout), tasks.ErrorType[net.Error](), serverError),
		tasks.DontAutoRetryFor(tasks.ErrorIs(errGone)),
		tasks.RetryBackoff(2), tasks.RetryBackoffMax(10*time.Minute), tasks.RetryJitter(true),
		tasks.MaxRetries(8))
}

func serverError(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code >= 500
}

func crawl(_ context.Context, in Fetch) (int, error) {
	switch in.URL {
	case "busy":
		return 0, fmt.Errorf("crawl %s: %w", in.URL, errRateLimit)
	case "broken":
		return 0, &StatusError{Code: 503}
	case "gone":
		return 0, errors.Join(&StatusError{Code: 503}, errGone)
	}
	return len(in.URL), nil
}
