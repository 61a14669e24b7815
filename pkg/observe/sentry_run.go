package observe

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// The names of Python's SDK, so that both sides of a queue look alike in Sentry
// (docs/protocol.md, "Sentry's headers").
const (
	opTask     = "queue.task.celery"
	opProcess  = "queue.process"
	jobContext = "celery-job"
	spanOrigin = "auto.queue.lovage"
)

// sentryRun is one run of a task.
type sentryRun struct {
	request *tasks.Request
	hub     *sentry.Hub
	// context is the handler's.
	context context.Context //nolint:containedctx // made for the one call of the handler
	// continued puts a transaction into the trace of the message.
	continued sentry.SpanOption
	// transaction and its child process are nil where traces are off.
	transaction, process *sentry.Span
	// ended is when the handler returned.
	ended time.Time
}

// begin starts a run. It is nil where code of the user, such as a TracesSampler,
// panics: the task goes on without Sentry.
func (s *Sentry) begin(ctx context.Context, request *tasks.Request) (run *sentryRun) {
	defer func() {
		if recover() != nil {
			run = nil
		}
	}()
	run = s.newRun(ctx, request)
	if s.options.Client.EnableTracing {
		run.startSpans()
	}
	s.runs.Store(request, run)
	return run
}

// newRun makes the hub of a run, which belongs to the trace of its message.
func (s *Sentry) newRun(ctx context.Context, request *tasks.Request) *sentryRun {
	run := &sentryRun{request: request, hub: s.hub.Clone()}
	run.continued = continueTrace(run.hub, request.Headers)
	s.describe(run.hub.Scope(), request)
	run.context = sentry.SetHubOnContext(ctx, run.hub)
	if request.Retries > 0 {
		run.hub.AddBreadcrumb(earlierRuns(request), nil)
	}
	return run
}

// describe sets what every event of the run shows.
func (s *Sentry) describe(scope *sentry.Scope, request *tasks.Request) {
	for name, value := range map[string]string{
		"celery_task": request.Task, "celery_task_id": request.ID, "queue": request.Queue,
		"retries": strconv.Itoa(request.Retries), "root_id": request.RootID, "parent_id": request.ParentID,
	} {
		if value != "" {
			scope.SetTag(name, tagText(value))
		}
	}
	job := sentry.Context{
		"task_name": request.Task, "task_id": request.ID, "queue": request.Queue,
		"retries": request.Retries, "max_retries": request.MaxRetries, "attempt": request.Attempt,
		"root_id": request.RootID, "parent_id": request.ParentID, "hostname": request.Hostname,
	}
	if s.options.SendArgs {
		job["args"] = protocol.ReprArgs(request.Args)
		job["kwargs"] = protocol.Repr(request.Kwargs, protocol.ReprLimit)
	}
	scope.SetContext(jobContext, job)
}

// maxTag is the longest value of a tag that Sentry takes.
const maxTag = 200

// tagText is text as Sentry takes it in a tag: short and in one line.
func tagText(text string) string { return cut(strings.ReplaceAll(text, "\n", " "), maxTag) }

// cut shortens text to a number of bytes, at the end of a character.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// startSpans makes a transaction of the run, and in it the span that Sentry's page
// about queues reads.
func (r *sentryRun) startSpans() {
	request := r.request
	r.transaction = sentry.StartTransaction(r.context, request.Task, r.continued,
		sentry.WithOpName(opTask), sentry.WithTransactionSource(sentry.SourceTask), sentry.WithSpanOrigin(spanOrigin))
	r.process = r.transaction.StartChild(opProcess, sentry.WithDescription(request.Task))
	r.process.SetData("messaging.message.id", request.ID)
	r.process.SetData("messaging.destination.name", request.Queue)
	r.process.SetData("messaging.message.retry.count", request.Retries)
	if latency, known := latencyOf(request.Headers, r.transaction.StartTime); known {
		r.process.SetData("messaging.message.receive.latency", latency)
	}
	r.context = r.process.Context()
}

func (r *sentryRun) handlerEnded() { r.ended = time.Now() }

// runOf is the run of a request, nil where the handler was never called.
func (s *Sentry) runOf(request *tasks.Request) *sentryRun {
	run, _ := s.runs.Load(request)
	found, _ := run.(*sentryRun)
	return found
}

// mark sets how the run ended; the last mark counts.
func (s *Sentry) mark(request *tasks.Request, status sentry.SpanStatus) {
	if run := s.runOf(request); run != nil && run.transaction != nil {
		run.transaction.Status, run.process.Status = status, status
	}
}

// finish sends the transaction.
func (s *Sentry) finish(request *tasks.Request) {
	run := s.runOf(request)
	s.runs.Delete(request)
	if run == nil || run.transaction == nil {
		return
	}
	if run.transaction.Status == sentry.SpanStatusUndefined {
		run.transaction.Status, run.process.Status = sentry.SpanStatusOK, sentry.SpanStatusOK
	}
	// What came after the handler, storing and settling, is not the task's time.
	run.process.EndTime, run.transaction.EndTime = run.ended, run.ended
	run.process.Finish()
	run.transaction.Finish()
}

// retried leaves a breadcrumb, for what a goroutine of the handler may still
// report.
func (s *Sentry) retried(e worker.TaskRetried) {
	if run := s.runOf(e.Request); run != nil {
		run.hub.AddBreadcrumb(&sentry.Breadcrumb{
			Category: "celery.retry", Level: sentry.LevelInfo, Message: cut(retryText(e), maxText),
		}, nil)
	}
}

// earlierRuns is the breadcrumb of the runs before this one, which may have been
// on other workers: all that is known of them is in the message.
func earlierRuns(request *tasks.Request) *sentry.Breadcrumb {
	crumb := &sentry.Breadcrumb{
		Category: "celery.retry", Level: sentry.LevelWarning,
		Message: fmt.Sprintf("retry %d of %s", request.Retries, request.Task),
		Data:    map[string]any{"retries": request.Retries, "max_retries": request.MaxRetries},
	}
	if cause, known := request.Headers[causeHeader].(string); known {
		crumb.Data["cause"] = cut(cause, maxCause)
	}
	return crumb
}
