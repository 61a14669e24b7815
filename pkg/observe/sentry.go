package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// ErrSentryDSN is returned by NewSentry for a DSN that is none. It doesn't repeat
// it, because a DSN is a secret.
var ErrSentryDSN = errors.New("observe: the DSN of Sentry is not valid")

// SentryOptions say what is sent to Sentry, and how.
type SentryOptions struct {
	// Client are the options of the SDK: DSN, environment, sample rates, BeforeSend
	// and so on. With EnableTracing each run of a task is a transaction.
	Client sentry.ClientOptions
	// SendArgs adds the arguments of the task, cut at 1024 characters. They may hold
	// personal data and secrets.
	SendArgs bool
	// IgnoreErrors are errors that are not reported: Python's class ("ValueError",
	// "shop.errors.Declined") or Go's type ("fs.PathError", "io/fs.PathError") of an
	// error anywhere in the chain.
	IgnoreErrors []string
	// IgnoreMaxRetries leaves out failures of tasks that have used up their retries.
	IgnoreMaxRetries bool
}

// Sentry is an observer that reports final, unexpected failures, each once, and
// gives each run of a task a hub of its own: sentry.GetHubFromContext(ctx) in a
// handler returns it, and user, tags and breadcrumbs set there reach no other run.
// A retry is no failure: reporting each floods the project.
type Sentry struct {
	options SentryOptions
	// hub is never changed after NewSentry; each run has a clone.
	hub    *sentry.Hub
	sender *sentrySender
	// runs holds the *sentryRun of each *tasks.Request that runs.
	runs sync.Map
}

// NewSentry makes an observer with a Sentry client of its own. It returns
// ErrSentryDSN for a DSN that is none.
func NewSentry(options SentryOptions) (*Sentry, error) {
	sender := newSentrySender(&options.Client)
	client, err := sentry.NewClient(options.Client)
	if err != nil {
		sender.cancel()
		return nil, ErrSentryDSN // the client's error quotes the DSN
	}
	return &Sentry{options: options, hub: sentry.NewHub(client, sentry.NewScope()), sender: sender}, nil
}

// Wrap gives a run its hub and, with tracing, its transaction.
func (s *Sentry) Wrap(next tasks.HandlerFunc) tasks.HandlerFunc {
	return func(ctx context.Context, args tasks.Arguments) (any, error) {
		request, found := tasks.RequestFrom(ctx)
		if !found {
			return next(ctx, args)
		}
		run := s.begin(ctx, request)
		if run == nil {
			return next(ctx, args)
		}
		defer run.handlerEnded()               // also of a handler that ends its goroutine
		result, err := next(run.context, args) //nolint:contextcheck // made from ctx
		run.carryOn(err)
		return result, err
	}
}

// Observe follows what becomes of a run.
func (s *Sentry) Observe(event worker.Event) {
	switch e := event.(type) {
	case worker.TaskFailed:
		s.failed(e)
	case worker.TaskRetried:
		s.mark(e.Request, sentry.SpanStatusAborted)
		s.retried(e)
	case worker.TaskIgnored:
		s.mark(e.Request, sentry.SpanStatusAborted)
	case worker.TaskRejected:
		s.mark(e.Request, sentry.SpanStatusAborted)
	case worker.TaskRevoked:
		s.mark(e.Request, sentry.SpanStatusCanceled)
	case worker.TaskCancelled:
		s.mark(e.Request, sentry.SpanStatusCanceled)
	case worker.TaskEnded:
		s.finish(e.Request)
	}
}

// Close sends what waits, for timeout at most, and ends the client. It returns a
// *SentryUnsentError if not everything was sent, now or before.
func (s *Sentry) Close(timeout time.Duration) error {
	flushed := s.hub.Flush(timeout)
	s.sender.cancel() // a server that hangs must not hold up the end
	s.hub.Client().Close()
	s.sender.closeIdle()
	if failed := s.sender.failed.Load(); failed > 0 || !flushed {
		return &SentryUnsentError{Failed: failed, TimedOut: !flushed, Timeout: timeout}
	}
	return nil
}
