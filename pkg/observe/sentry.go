package observe

import (
	"errors"
	"strconv"
	"time"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// Sentry is an observer that reports final, unexpected failures. A retry is not
// a failure: reporting each floods the project. Arguments are not sent, they
// may hold secrets.
type Sentry struct{ hub *sentry.Hub }

// NewSentry makes an observer for a Sentry client. Each event gets a clone of
// the hub, because a hub must not be shared by goroutines that change it.
func NewSentry(options sentry.ClientOptions) (*Sentry, error) {
	client, err := sentry.NewClient(options)
	if err != nil {
		// The error of the client quotes the DSN, which is a secret.
		return nil, errors.New("observe: SENTRY_DSN is not a valid DSN")
	}
	return &Sentry{hub: sentry.NewHub(client, sentry.NewScope())}, nil
}

// Observe reports a failed task.
func (s *Sentry) Observe(event worker.Event) {
	failed, ok := event.(worker.TaskFailed)
	if !ok || failed.Expected {
		return
	}
	value := failed.Err.Error()
	var argument *tasks.ArgumentError
	if errors.As(failed.Err, &argument) { // its text quotes the value
		value = "the arguments don't fit: " + argument.Argument
	}
	hub := s.hub.Clone()
	hub.WithScope(func(scope *sentry.Scope) {
		scope.SetTag("celery_task", failed.Request.Task)
		scope.SetTag("celery_task_id", failed.Request.ID)
		scope.SetTag("queue", failed.Request.Queue)
		scope.SetTag("retries", strconv.Itoa(failed.Request.Retries))
		scope.SetFingerprint([]string{failed.Request.Task, failed.Exception.Type})
		report := sentry.NewEvent()
		report.Level = sentry.LevelError
		report.Transaction = failed.Request.Task
		report.Exception = []sentry.Exception{{
			Type: failed.Exception.Type, Module: failed.Exception.Module, Value: value,
			Stacktrace: sentry.ExtractStacktrace(failed.Err),
		}}
		hub.CaptureEvent(report)
	})
}

// Close waits until what was reported is sent, timeout at most, and ends the
// client. It tells whether everything was sent.
func (s *Sentry) Close(timeout time.Duration) bool {
	sent := s.hub.Flush(timeout)
	s.hub.Client().Close()
	return sent
}
