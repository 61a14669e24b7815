package worker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// settleRetry stores RETRY and publishes the copy of a task that asked for it.
// Celery publishes first; but then the copy can be finished before RETRY is
// stored, and the caller would wait for ever. Where the copy can't be published
// the task has not been retried.
func (w *Worker) settleRetry(j *job) {
	if j.storeErrors {
		w.storeOnce(j, w.retryMeta(j), !j.mayBeStored)
		j.mayBeStored = true
	}
	if err := w.publishRetry(j, j.retry); err != nil {
		j.outcome = acks.RetryUnpublished
		if hopeless(err) {
			j.outcome = acks.Failure
		}
		j.err = fmt.Errorf("worker: retry of %s[%s] could not be published: %w", j.message.Task, j.message.ID, err)
	}
}

// boundRetry is the retry with the longest wait that the worker allows, where it
// asks for more: a backoff that has run away. The error itself is the handler's.
func (w *Worker) boundRetry(j *job, retry *tasks.RetryError) *tasks.RetryError {
	wait, longest := retry.Countdown, w.options.RetryCountdownMax
	if !retry.ETA.IsZero() {
		wait = time.Until(retry.ETA)
	}
	if longest == 0 || wait <= longest {
		return retry
	}
	w.observe(RetryBounded{Request: j.request, Asked: wait, Max: longest})
	bounded := *retry
	bounded.Countdown, bounded.ETA = longest, time.Time{}
	return &bounded
}

func (w *Worker) publishRetry(j *job, retry *tasks.RetryError) error {
	message, err := w.retryMessage(j, retry)
	if err != nil {
		return err
	}
	envelope, err := protocol.Again(j.delivery.Body(), message, protocol.AgainOptions{
		Protocol: w.options.TaskProtocol, NewArguments: retry.Args != nil || retry.Kwargs != nil,
		Headers: retry.Headers, Limits: w.options.Limits,
	})
	if err != nil {
		return err
	}
	body, headers, err := envelope.Wire(uuid.NewString())
	if err != nil {
		return err
	}
	return w.publish(j, message.Queue, transport.Outgoing{
		Body: body, Headers: headers, Priority: message.Priority, Delay: w.serverDelay(message.ETA),
	})
}

// retryMessage is the message that runs the task again: the received one, with one
// more retry, another ETA, and what the handler asked to change. How it is written
// is kept too; Celery loses ignore_result, the serializer and the compression.
func (w *Worker) retryMessage(j *job, retry *tasks.RetryError) (*protocol.Message, error) {
	m := *j.message
	m.Retries++
	m.ETA = retryTime(retry, time.Now()).In(w.options.Timezone)
	m.Queue = cmp.Or(retry.Queue, j.delivery.Queue())
	if retry.Priority != nil {
		m.Priority = *retry.Priority
	}
	if retry.Args != nil {
		args, err := protocol.ToValue(retry.Args)
		if err != nil {
			return nil, err
		}
		m.Args, m.ArgsRepr = args, protocol.ReprArgs(retry.Args)
	}
	if retry.Kwargs != nil {
		kwargs, err := protocol.ToValue(retry.Kwargs)
		if err != nil {
			return nil, err
		}
		m.Kwargs, _ = kwargs.(map[string]any)
		m.KwargsRepr = protocol.Repr(kwargs, protocol.ReprLimit)
	}
	return &m, nil
}

// retryTime is when the retry runs; zero is at once.
func retryTime(retry *tasks.RetryError, now time.Time) time.Time {
	switch {
	case !retry.ETA.IsZero():
		return retry.ETA
	case retry.Countdown > 0:
		return now.Add(retry.Countdown)
	}
	return time.Time{}
}

// serverDelay is the part of the wait that the broker can do: whole ticks,
// rounded down, and not beyond its maximum. The worker that gets the message
// waits for the rest.
func (w *Worker) serverDelay(eta time.Time) time.Duration {
	capabilities := w.transport.Capabilities()
	rest := time.Until(eta)
	if eta.IsZero() || capabilities.DelayTick <= 0 || rest <= 0 {
		return 0
	}
	delay := rest.Truncate(capabilities.DelayTick)
	if capabilities.MaxDelay > 0 {
		delay = min(delay, capabilities.MaxDelay)
	}
	return delay
}

func (w *Worker) tellRetried(j *job) {
	retry := retryOf(j)
	w.observe(TaskRetried{Request: j.request, Cause: retry.Cause, Delay: retry.Countdown, When: retry.ETA})
}

// retryOf is the retry of a job that is sent to run again: what the handler asked for,
// or what a failure that is redelivered comes to.
func retryOf(j *job) *tasks.RetryError {
	if j.retry == nil {
		return &tasks.RetryError{Cause: j.err}
	}
	return j.retry
}
