package observe

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/worker"
)

// maxName is how much of a name is written that no task here has, in bytes.
const maxName = 500

// Log is an observer that writes Celery's log lines.
type Log struct {
	logger *zap.Logger
	// bounded are the tasks whose retries were said to wait too long.
	bounded sync.Map
}

// NewLog makes an observer that writes to logger.
func NewLog(logger *zap.Logger) *Log { return &Log{logger: logger} }

// Observe writes the line for an event.
func (l *Log) Observe(event worker.Event) {
	if l.silent(event) {
		return
	}
	switch e := event.(type) {
	case worker.TaskReceived, worker.TaskPostponed, worker.TaskStarted:
		l.beginning(e)
	case worker.TaskSucceeded, worker.TaskFailed, worker.TaskRetried, worker.RetryBounded, worker.TaskIgnored, worker.TaskRejected,
		worker.TaskRevoked, worker.TaskCancelled:
		l.end(e)
	case worker.TaskUnknown:
		l.unknown(e)
	case worker.MessageUnprocessable:
		l.unprocessable(e)
	case worker.NoRetryCeiling:
		l.noRetryCeiling(e)
	case worker.Scaled, worker.DepthUnknown:
		l.scaling(e)
	default:
		l.operation(e)
	}
}

// silent tells whether nothing is logged of an event that each task has: its line, with
// a result in it, is not made then.
func (l *Log) silent(event worker.Event) bool {
	switch event.(type) {
	case worker.TaskReceived, worker.TaskSucceeded:
		return !l.logger.Core().Enabled(zapcore.InfoLevel)
	case worker.TaskStarted, worker.TaskPostponed:
		return !l.logger.Core().Enabled(zapcore.DebugLevel)
	default:
		return false
	}
}

func (l *Log) beginning(event worker.Event) {
	switch e := event.(type) {
	case worker.TaskReceived:
		l.task(zapcore.InfoLevel, e.Request, "Task %s received", nameOf(e.Request))
	case worker.TaskPostponed:
		l.task(zapcore.DebugLevel, e.Request, "Task %s waits on the broker for %v", nameOf(e.Request), e.Delay)
	case worker.TaskStarted:
		l.task(zapcore.DebugLevel, e.Request, "Task accepted: %s pid:%d", nameOf(e.Request), os.Getpid())
	}
}

func (l *Log) end(event worker.Event) {
	switch e := event.(type) {
	case worker.TaskSucceeded:
		l.task(zapcore.InfoLevel, e.Request, "Task %s succeeded in %ss: %s",
			nameOf(e.Request), seconds(e.Runtime), protocol.Repr(e.Result, protocol.ReprLimit))
	case worker.TaskFailed:
		l.failed(e)
	case worker.TaskRetried:
		l.task(zapcore.InfoLevel, e.Request, "Task %s retry: %s", nameOf(e.Request), retryText(e))
	case worker.RetryBounded:
		l.retryBounded(e)
	case worker.TaskIgnored:
		l.task(zapcore.InfoLevel, e.Request, "Task %s ignored", nameOf(e.Request))
	case worker.TaskRejected:
		l.task(zapcore.InfoLevel, e.Request, "Task %s rejected: %s", nameOf(e.Request), e.Reason)
	case worker.TaskRevoked:
		why := "revoked"
		if e.Expired {
			why = "expired"
		}
		l.task(zapcore.InfoLevel, e.Request, "Discarding revoked task: %s (%s)", nameOf(e.Request), why)
	case worker.TaskCancelled:
		l.task(zapcore.WarnLevel, e.Request, "Task %s cancelled by the shutdown, handed back: %t", nameOf(e.Request), e.HandedBack)
	}
}

func (l *Log) failed(e worker.TaskFailed) {
	level, word := zapcore.ErrorLevel, "unexpected"
	if e.Expected {
		level, word = zapcore.InfoLevel, "expected"
	}
	text := fmt.Sprintf("Task %s raised %s: %s", nameOf(e.Request), word, e.Exception)
	entry := l.logger.Check(level, text)
	if entry == nil {
		return
	}
	if !e.Expected {
		entry.Stack = strings.TrimRight(e.Traceback, "\n")
	}
	entry.Write(taskFields(e.Request)...)
}

// retryBounded warns once for each task: a backoff that has run away would say it
// with every retry.
func (l *Log) retryBounded(e worker.RetryBounded) {
	if _, warned := l.bounded.LoadOrStore(e.Request.Task, true); warned {
		return
	}
	l.task(zapcore.WarnLevel, e.Request, "Task %s asks to be retried in %ss, it waits %ss (retry_countdown_max)",
		nameOf(e.Request), seconds(e.Asked), seconds(e.Max))
}

func (l *Log) unknown(e worker.TaskUnknown) {
	e.Task, e.ID = cut(e.Task, maxName), cut(e.ID, maxName) // a stranger's
	fields := []zap.Field{zap.String("task", e.Task), zap.String("id", e.ID), zap.String("queue", e.Queue)}
	if e.Fate == worker.HandedBack {
		l.logger.Warn(fmt.Sprintf("Received unregistered task of type '%s'. Handed back to %s for another worker. [id: %s]",
			e.Task, e.Queue, e.ID), fields...)
		return
	}
	l.logger.Error(fmt.Sprintf("Received unregistered task of type '%s'. The message %s. [id: %s]",
		e.Task, fateText(e.Fate, e.KeptIn), e.ID), fields...)
}

func (l *Log) unprocessable(e worker.MessageUnprocessable) {
	var undecodable *protocol.DecodeError
	level, text := zapcore.ErrorLevel, "Received invalid task message"
	switch {
	case errors.Is(e.Err, protocol.ErrUnknownMessage):
		level, text = zapcore.WarnLevel, "Received unknown message. Wrong destination?!?"
	case errors.As(e.Err, &undecodable):
		level, text = zapcore.DPanicLevel, "Can't decode message body"
	}
	l.log(level, fmt.Sprintf("%s: %v. The message %s.", text, e.Err, fateText(e.Fate, e.KeptIn)),
		zap.String("queue", e.Queue), zap.String("kept_in", e.KeptIn), zap.String("reason", e.Reason))
}

func fateText(fate worker.Fate, queue string) string {
	switch fate {
	case worker.Kept:
		return "is kept in " + queue
	case worker.HandedBack:
		return "is handed back"
	case worker.Answered:
		return "is a query, which is answered with that"
	default:
		return "is dropped"
	}
}

// operation is what happens around the tasks.
func (l *Log) operation(event worker.Event) {
	switch e := event.(type) {
	case worker.Started:
		l.logger.Info(e.Hostname+" ready.",
			zap.Strings("queues", e.Queues), zap.Int("concurrency", e.Concurrency), zap.Strings("tasks", e.Tasks))
	case worker.Stopping:
		text := "worker: Warm shutdown (MainProcess)"
		if e.Cancelled {
			text = "worker: Cold shutdown (MainProcess)"
		}
		l.logger.Warn(text)
	case worker.Stopped:
		l.logger.Info("worker: stopped, everything is settled")
	case worker.AcksLateIgnored:
		l.logger.Warn("acks_late has no effect with broker_transport_options.auto_ack: the broker acks what it hands over. Tasks: "+
			strings.Join(e.Tasks, ", "), zap.Strings("tasks", e.Tasks))
	case worker.DeadLettered:
		l.task(zapcore.ErrorLevel, e.Request, "Task %s is kept in the dead-letter queue %s (%s): %v", nameOf(e.Request), e.Queue, e.Reason, e.Err)
	case worker.StartUnnoted:
		l.task(zapcore.WarnLevel, e.Request, "Task %s starts without a note, a crash would not count as an attempt: %v", nameOf(e.Request), e.Err)
	case worker.TaskDuplicate:
		why := "was delivered twice; it has run"
		if e.Stored {
			why = "Task already completed successfully."
		}
		l.task(zapcore.InfoLevel, e.Request, "Task %s %s", nameOf(e.Request), why)
	case worker.LookFailed:
		l.task(zapcore.WarnLevel, e.Request, "Task %s runs: the state of an earlier run can't be read: %v", nameOf(e.Request), e.Err)
	case worker.SettleFailed:
		what := "it will be delivered again"
		if e.Acked {
			what = "the broker has acked it, a copy is tried once more"
		}
		l.logger.Error(fmt.Sprintf("Couldn't %s message of %s[%s], %s: %v", e.Operation, e.Queue, e.ID, what, e.Err),
			zap.String("queue", e.Queue), zap.String("id", e.ID))
	case worker.StoreFailed:
		l.logger.Error(fmt.Sprintf("Couldn't store %s of %s (given up: %t): %v", e.State, e.ID, e.GivenUp, e.Err),
			zap.String("id", e.ID), zap.String("state", string(e.State)))
	case worker.PublishFailed:
		l.logger.Error(fmt.Sprintf("Couldn't publish a copy of %s to %s (given up: %t): %v", e.ID, e.Queue, e.GivenUp, e.Err),
			zap.String("id", e.ID), zap.String("queue", e.Queue))
	case worker.FetchFailed:
		l.logger.Error(fmt.Sprintf("Can't consume from %s: %v", e.Queue, e.Err), zap.String("queue", e.Queue))
	case worker.HookPanicked:
		l.hookPanicked(e)
	}
}

// scaling is what the autoscaler does.
func (l *Log) scaling(event worker.Event) {
	switch e := event.(type) {
	case worker.Scaled:
		what := "up"
		if e.To < e.From {
			what = "down"
		}
		l.logger.Info(fmt.Sprintf("Scaling %s from %d to %d slots for %d messages.", what, e.From, e.To, e.Depth),
			zap.Int("from", e.From), zap.Int("to", e.To), zap.Int64("depth", e.Depth))
	case worker.DepthUnknown:
		l.logger.Warn(fmt.Sprintf("Couldn't ask how long the queues are, the number of slots stays: %v", e.Err))
	}
}

func (l *Log) hookPanicked(e worker.HookPanicked) {
	if e.Request == nil {
		l.logger.Error(fmt.Sprintf("A hook panicked: %v", e.Err))
		return
	}
	l.task(zapcore.ErrorLevel, e.Request, "A hook of task %s panicked: %v", nameOf(e.Request), e.Err)
}

// TransportHooks writes one line for each change of the connection.
func (l *Log) TransportHooks(address string) transport.Hooks {
	return (&connectionLines{log: l, address: address}).hooks()
}

func (l *Log) task(level zapcore.Level, request *tasks.Request, format string, args ...any) {
	l.log(level, fmt.Sprintf(format, args...), taskFields(request)...)
}

func taskFields(request *tasks.Request) []zap.Field {
	return []zap.Field{
		zap.String("task", request.Task), zap.String("id", request.ID),
		zap.String("queue", request.Queue), zap.Int("retries", request.Retries), zap.Int("attempt", request.Attempt),
	}
}

func (l *Log) log(level zapcore.Level, text string, fields ...zap.Field) {
	if entry := l.logger.Check(level, text); entry != nil {
		entry.Write(fields...)
	}
}

// nameOf is Celery's name[id], with the shadow name where there is one.
func nameOf(request *tasks.Request) string {
	name := request.Task
	if request.Shadow != "" {
		name = request.Shadow
	}
	return name + "[" + request.ID + "]"
}

// seconds is a duration as Python prints a float.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func retryText(e worker.TaskRetried) string {
	when := "Retry"
	switch {
	case !e.When.IsZero():
		when = "Retry at " + e.When.Format(time.RFC3339)
	case e.Delay > 0:
		when = "Retry in " + seconds(e.Delay) + "s"
	}
	if e.Cause != nil {
		when += ": " + tasks.ExceptionOf(e.Cause).String()
	}
	return when
}
