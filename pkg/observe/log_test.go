package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
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
		"received":  {worker.TaskReceived{Request: request()}, "INFO/MainProcess] Task proj.add[id] received"},
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
			worker.TaskUnknown{Task: "no.such", ID: "id", Queue: "q", KeptIn: "q.unprocessable"},
			"ERROR/MainProcess] Received unregistered task of type 'no.such'. The message is kept in q.unprocessable. [id: id]",
		},
		"undecodable": {
			worker.MessageUnprocessable{Queue: "q", Err: &protocol.DecodeError{}},
			"CRITICAL/MainProcess] Can't decode message body: ",
		},
		"unknown message": {
			worker.MessageUnprocessable{Queue: "q", Err: protocol.ErrUnknownMessage, KeptIn: "k"},
			"WARNING/MainProcess] Received unknown message. Wrong destination?!?",
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
