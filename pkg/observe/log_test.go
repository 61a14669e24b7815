package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

func request() *tasks.Request {
	return &tasks.Request{ID: "id", Task: "proj.add", Queue: "celery"}
}

// TestLines: the lines are Celery's, word for word where Celery has them.
func TestLines(t *testing.T) {
	keyError := protocol.Exception{Type: "KeyError", Module: "builtins", Args: []any{"missing"}}
	for name, c := range map[string]struct {
		event worker.Event
		line  string
	}{
		"scaled up":   {worker.Scaled{From: 1, To: 4, Depth: 7}, "INFO/MainProcess] Scaling up from 1 to 4 slots for 7 messages."},
		"scaled down": {worker.Scaled{From: 4, To: 1}, "INFO/MainProcess] Scaling down from 4 to 1 slots for 0 messages."},
		"no depth":    {worker.DepthUnknown{Err: errors.New("away")}, "WARNING/MainProcess] Couldn't ask how long the queues are, the number of slots stays: away"},

		"received": {worker.TaskReceived{Request: request()}, "INFO/MainProcess] Task proj.add[id] received"},
		"a forged id": {
			worker.TaskReceived{Request: &tasks.Request{ID: "id\n[x: INFO] paid\x1b[2J", Task: "é.add"}},
			`INFO/MainProcess] Task é.add[id\n[x: INFO] paid\x1b[2J] received`,
		},
		"a forged task": {
			worker.TaskUnknown{Task: "no\r", ID: "i\n", Queue: "q", KeptIn: "k", Fate: worker.Kept},
			`ERROR/MainProcess] Received unregistered task of type 'no\r'. The message is kept in k. [id: i\n]`,
		},
		"a long task": {
			worker.TaskUnknown{Task: strings.Repeat("n", 1<<20), ID: strings.Repeat("i", 1<<20), Queue: "q", Fate: worker.Dropped},
			`ERROR/MainProcess] Received unregistered task of type '` + strings.Repeat("n", 500) + `'. The message is dropped. [id: ` + strings.Repeat("i", 500) + `]`,
		},
		"succeeded": {worker.TaskSucceeded{Request: request(), Result: int64(5), Runtime: 10 * time.Millisecond}, "INFO/MainProcess] Task proj.add[id] succeeded in 0.01s: 5"},
		"shadow":    {worker.TaskReceived{Request: &tasks.Request{ID: "id", Task: "proj.add", Shadow: "sum"}}, "INFO/MainProcess] Task sum[id] received"},
		"failed": {
			worker.TaskFailed{Request: request(), Err: errors.New("x"), Exception: keyError, Traceback: "Traceback…\n"},
			"ERROR/MainProcess] Task proj.add[id] raised unexpected: KeyError('missing')\nTraceback…",
		},
		"expected": {
			worker.TaskFailed{Request: request(), Err: errors.New("x"), Exception: keyError, Traceback: "Traceback…", Expected: true},
			"INFO/MainProcess] Task proj.add[id] raised expected: KeyError('missing')",
		},
		"retry": {
			worker.TaskRetried{Request: request(), Delay: 300 * time.Millisecond, Cause: tasks.NewPythonError("builtins", "KeyError", "missing")},
			"INFO/MainProcess] Task proj.add[id] retry: Retry in 0.3s: KeyError('missing')",
		},
		"bounded": {
			worker.RetryBounded{Request: request(), Asked: 25 * time.Hour, Max: 24 * time.Hour},
			"WARNING/MainProcess] Task proj.add[id] asks to be retried in 90000s, it waits 86400s (retry_countdown_max)",
		},
		"hook":      {worker.HookPanicked{Request: request(), Err: errors.New("ouch")}, "ERROR/MainProcess] A hook of task proj.add[id] panicked: ouch"},
		"free hook": {worker.HookPanicked{Err: errors.New("ouch")}, "ERROR/MainProcess] A hook panicked: ouch"},
		"ignored":   {worker.TaskIgnored{Request: request()}, "INFO/MainProcess] Task proj.add[id] ignored"},
		"rejected":  {worker.TaskRejected{Request: request(), Reason: "bad"}, "INFO/MainProcess] Task proj.add[id] rejected: bad"},
		"expired":   {worker.TaskRevoked{Request: request(), Expired: true}, "INFO/MainProcess] Discarding revoked task: proj.add[id] (expired)"},
		"unknown": {
			worker.TaskUnknown{Task: "no.such", ID: "id", Queue: "q", KeptIn: "q.unprocessable", Fate: worker.Kept},
			"ERROR/MainProcess] Received unregistered task of type 'no.such'. The message is kept in q.unprocessable. [id: id]",
		},
		"undecodable": {
			worker.MessageUnprocessable{Queue: "q", Err: &protocol.DecodeError{}},
			"CRITICAL/MainProcess] Can't decode message body: ",
		},
		"unknown message": {
			worker.MessageUnprocessable{Queue: "q", Err: protocol.ErrUnknownMessage, KeptIn: "k", Fate: worker.Kept},
			"WARNING/MainProcess] Received unknown message. Wrong destination?!?",
		},
		"dead letter": {
			worker.DeadLettered{Request: request(), ID: "id", Task: "proj.add", Queue: "dead", Reason: "rejected", Err: errors.New("bad")},
			"ERROR/MainProcess] Task proj.add[id] is kept in the dead-letter queue dead (rejected): bad",
		},
		"start without a note": {
			worker.StartUnnoted{Request: request(), Err: errors.New("no answer")},
			"WARNING/MainProcess] Task proj.add[id] starts without a note, a crash would not count as an attempt: no answer",
		},
		"acks_late ignored": {
			worker.AcksLateIgnored{Tasks: []string{"a", "b"}},
			"WARNING/MainProcess] acks_late has no effect with broker_transport_options.auto_ack: the broker acks what it hands over. Tasks: a, b",
		},
		"no retry ceiling": {
			worker.NoRetryCeiling{Queue: "text"},
			"WARNING/MainProcess] Tasks of text that fail are delivered again without an end: max_retries and failed_task_queue are not both set",
		},
		"dropped": {
			worker.MessageUnprocessable{Queue: "text", Err: errors.New("no task_name")},
			"ERROR/MainProcess] Received invalid task message: no task_name. The message is dropped.",
		},
		"not settled": {
			worker.SettleFailed{Operation: "ack", Queue: "q", ID: "id", Err: errors.New("no")},
			"ERROR/MainProcess] Couldn't ack message of q[id], it will be delivered again: no",
		},
		"acked and not settled": {
			worker.SettleFailed{Operation: "dead-letter", Queue: "q", ID: "id", Err: errors.New("no"), Acked: true},
			"ERROR/MainProcess] Couldn't dead-letter message of q[id], the broker has acked it, a copy is tried once more: no",
		},
		"ran twice": {
			worker.TaskDuplicate{Request: request()},
			"INFO/MainProcess] Task proj.add[id] was delivered twice; it has run",
		},
		"deduplicated": {
			worker.TaskDuplicate{Request: request(), Stored: true},
			"INFO/MainProcess] Task proj.add[id] Task already completed successfully.",
		},
		"not looked up": {
			worker.LookFailed{Request: request(), Err: errors.New("down")},
			"WARNING/MainProcess] Task proj.add[id] runs: the state of an earlier run can't be read: down",
		},
		"ready": {worker.Started{Hostname: "celery@host"}, "INFO/MainProcess] celery@host ready."},
		"warm":  {worker.Stopping{}, "WARNING/MainProcess] worker: Warm shutdown (MainProcess)"},
		"cold":  {worker.Stopping{Cancelled: true}, "WARNING/MainProcess] worker: Cold shutdown (MainProcess)"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := NewLogger(&out, Console, "info")
			require.NoError(t, err)
			NewLog(logger).Observe(c.event)
			require.Regexp(t, `^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: `+regexp.QuoteMeta(c.line), out.String())
		})
	}
}

func TestJSONLinesHaveFields(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, JSON, "info")
	require.NoError(t, err)
	NewLog(logger).Observe(worker.TaskReceived{Request: request()})
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "proj.add", line["task"])
	require.Equal(t, "id", line["id"])
	require.Equal(t, "INFO", line["level"])
	require.Equal(t, "Task proj.add[id] received", line["message"])
}

// TestNobodyElseWritesLines: what a sender or a handler has written neither begins a
// line of the console nor reaches the terminal; a traceback keeps its lines.
func TestNobodyElseWritesLines(t *testing.T) {
	const forged = "x\n[2026-11-29 16:00:34,237: INFO/MainProcess] Task shop.pay[1] succeeded\x1b[2J"
	for _, event := range []worker.Event{
		worker.TaskReceived{Request: &tasks.Request{Task: forged, ID: forged}},
		worker.TaskUnknown{Task: forged, ID: forged, Queue: "q"},
		worker.MessageUnprocessable{Queue: "q", Err: errors.New(forged)},
		worker.TaskRejected{Request: request(), Reason: forged},
		worker.TaskFailed{Request: request(), Exception: protocol.Exception{Type: "E", Args: []any{forged}}},
		worker.SettleFailed{Operation: "ack", Queue: "q", ID: forged, Err: errors.New("no")},
	} {
		var out bytes.Buffer
		logger, err := NewLogger(&out, Console, "info")
		require.NoError(t, err)
		NewLog(logger).Observe(event)
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")), out.String())
		require.NotContains(t, out.String(), "\x1b")
		require.Contains(t, out.String(), `x\n[2026`)
	}
	var out bytes.Buffer
	logger, err := NewLogger(&out, Console, "info")
	require.NoError(t, err)
	NewLog(logger).Observe(worker.TaskFailed{Request: request(), Traceback: "one\n\ttwo\x1b\n"})
	require.Contains(t, out.String(), "\none\n\ttwo\\x1b\n")
}

// TestJSONTraceback is a field of its own.
func TestJSONTraceback(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, JSON, "info")
	require.NoError(t, err)
	NewLog(logger).Observe(worker.TaskFailed{Request: request(), Traceback: "one\ntwo\n", Exception: protocol.Exception{Type: "E"}})
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "one\ntwo", line["traceback"])
	require.Equal(t, "Task proj.add[id] raised unexpected: E()", line["message"])
}

// TestRunawayBackoffWarnsOnce: and once for each task.
func TestRunawayBackoffWarnsOnce(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, Console, "info")
	require.NoError(t, err)
	log := NewLog(logger)
	for range 3 {
		log.Observe(worker.RetryBounded{Request: request()})
		log.Observe(worker.RetryBounded{Request: &tasks.Request{Task: "proj.other"}})
	}
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("retry_countdown_max")))
}

func TestLevelHidesLines(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, Console, "warning")
	require.NoError(t, err)
	NewLog(logger).Observe(worker.TaskReceived{Request: request()})
	require.Empty(t, out.String())
}

func TestNewLoggerRefuses(t *testing.T) {
	_, err := NewLogger(nil, "xml", "info")
	require.ErrorContains(t, err, `log format is "xml"`)
	_, err = NewLogger(nil, Console, "loud")
	require.ErrorContains(t, err, `log level is "loud"`)
}
