package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// ackPolicy is one row of settings, which each cell's task has as its own.
type ackPolicy struct{ late, onFailure, rejectOnLost bool }

func (p ackPolicy) options() []tasks.Option {
	return []tasks.Option{tasks.AcksLate(p.late), tasks.AcksOnFailure(p.onFailure), tasks.RejectOnWorkerLost(p.rejectOnLost)}
}

// ackCell is what people outside see of one task: how it ended for its caller, the
// events in their order, and the reason beside its dead letter.
type ackCell struct {
	state  protocol.State // "" where nothing is stored
	class  string
	events []string
	letter string
}

// The handlers of the outcomes. A message that comes again finds a handler that
// succeeds.
var ackHandlers = map[string]tasks.HandlerFunc{
	"success":      func(context.Context, tasks.Arguments) (any, error) { return int64(7), nil },
	"failure":      func(context.Context, tasks.Arguments) (any, error) { return nil, errValue },
	"encode error": func(context.Context, tasks.Arguments) (any, error) { return make(chan int), nil },
	"retry": func(ctx context.Context, _ tasks.Arguments) (any, error) {
		return nil, tasks.Retry(ctx, errValue, tasks.Countdown(time.Second))
	},
	"ignore":               func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Ignore("not mine") },
	"reject requeue=False": func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("bad", false) },
	"reject requeue=True":  func(context.Context, tasks.Arguments) (any, error) { return nil, tasks.Reject("busy", true) },
	"worker lost":          func(context.Context, tasks.Arguments) (any, error) { runtime.Goexit(); return nil, nil },
	"expired":              func(context.Context, tasks.Arguments) (any, error) { return nil, errors.New("must not run") },
}

var errValue = tasks.NewPythonError("builtins", "ValueError", "no good")

// expectedCell states the table once more, by hand.
func expectedCell(outcome string, p ackPolicy) ackCell {
	rejectedForGood := ackCell{"FAILURE", "", []string{"task-rejected(requeue=False)", "task-failed", "dead-letter rejected"}, "rejected"}
	comesBack := ackCell{"SUCCESS", "", []string{"task-rejected(requeue=True)", "task-succeeded"}, ""}
	failed := ackCell{"FAILURE", "", []string{"task-failed"}, ""}
	classes := map[string]string{
		"failure": "ValueError", "encode error": "EncodeError", "reject requeue=False": "Reject", "worker lost": "WorkerLostError",
	}
	cell := failed
	switch outcome {
	case "success":
		return ackCell{"SUCCESS", "", []string{"task-succeeded"}, ""}
	case "retry":
		return ackCell{"SUCCESS", "", []string{"task-retried", "task-succeeded"}, ""}
	case "ignore":
		return ackCell{"", "", []string{"ignored"}, ""}
	case "expired":
		return ackCell{"REVOKED", "TaskRevokedError", []string{"task-revoked(term=False,sig=None,exp=True)"}, ""}
	case "reject requeue=True":
		if p.late {
			return comesBack
		}
		return ackCell{"SUCCESS", "", []string{"task-succeeded"}, ""} // Celery loses it
	case "reject requeue=False":
		cell = ackCell{"FAILURE", "", []string{"task-failed", "dead-letter rejected"}, "rejected"} // Celery loses an early one
		if p.late {
			cell.events = []string{"task-failed", "task-rejected(requeue=False)", "dead-letter rejected"}
		}
	case "worker lost":
		switch {
		case p.late && p.rejectOnLost:
			return comesBack
		case p.late && !p.onFailure:
			cell = ackCell{"FAILURE", "", []string{"task-rejected(requeue=False)", "task-failed", "dead-letter worker-lost"}, "worker-lost"}
		}
	default: // failure, encode error
		if p.late && !p.onFailure {
			cell = rejectedForGood
		}
	}
	cell.class = classes[outcome]
	return cell
}

// ackTask is a cell with the message that was sent for it.
type ackTask struct {
	name, id string
	outcome  string
	policy   ackPolicy
}

// TestAckTable runs each cell of the table for real: a broker, the transport, the
// result backend and the engine. Nothing may be left anywhere but the dead letters.
func TestAckTable(t *testing.T) {
	t.Parallel()
	for name, config := range liveBrokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runAckTable(t, config)
		})
	}
}

func runAckTable(t *testing.T, config broker.Config) {
	t.Helper()
	l := startLive(t, config)
	registry, cells := ackTasks()
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@acks", 16, []string{"acks"}
	options.DeadLetterQueue, options.MaxAttempts = "dead", 5
	told := &history{}
	connection := l.transport(t)
	w, err := New(options, registry, connection, l.backend, told)
	require.NoError(t, err)
	startedAt(t, w)
	for _, cell := range cells {
		message := protocol.Message{Task: cell.name, ID: cell.id, Queue: "acks"}
		if cell.outcome == "expired" {
			message.Expires = time.Now().Add(-time.Hour)
		}
		l.send(t, connection, message)
	}
	require.Eventually(t, func() bool { return complete(told.all(), cells) }, livePatience, 20*time.Millisecond, "some cell has no end")
	require.NoError(t, w.Stop(t.Context()))

	checkEvents(t, told.all(), cells)
	checkResults(t, l, cells)
	checkLetters(t, l, cells)
}

// ackTasks registers a task for each cell.
func ackTasks() (*tasks.Registry, []ackTask) {
	registry := tasks.NewRegistry()
	cells := make([]ackTask, 0, 8*len(ackHandlers))
	for outcome, handler := range ackHandlers {
		for bits := range 8 {
			policy := ackPolicy{late: bits&1 != 0, onFailure: bits&2 != 0, rejectOnLost: bits&4 != 0}
			cell := ackTask{fmt.Sprintf("%s %+v", outcome, policy), uuid.NewString(), outcome, policy}
			cells = append(cells, cell)
			tasks.HandleArguments(registry, cell.name, func(ctx context.Context, a tasks.Arguments) (any, error) {
				if request, _ := tasks.RequestFrom(ctx); request.Attempt > 1 || request.Retries > 0 {
					return "again", nil
				}
				return handler(ctx, a)
			}, policy.options()...)
		}
	}
	return registry, cells
}

func complete(told map[string][]string, cells []ackTask) bool {
	return !slices.ContainsFunc(cells, func(cell ackTask) bool {
		return len(told[cell.id]) < len(expectedCell(cell.outcome, cell.policy).events)
	})
}

func checkEvents(t *testing.T, told map[string][]string, cells []ackTask) {
	t.Helper()
	for _, cell := range cells {
		require.Equal(t, expectedCell(cell.outcome, cell.policy).events, told[cell.id], cell.name)
	}
}

// checkResults reads them as a caller does.
func checkResults(t *testing.T, l *live, cells []ackTask) {
	t.Helper()
	metas := make([]protocol.Meta, len(cells))
	errs := make([]error, len(cells))
	var all sync.WaitGroup
	for i, cell := range cells { // a look may take a second
		all.Go(func() { metas[i], errs[i] = l.backend.Fetch(t.Context(), cell.id) })
	}
	all.Wait()
	for i, cell := range cells {
		want := expectedCell(cell.outcome, cell.policy)
		if want.state == "" {
			require.ErrorIs(t, errs[i], results.ErrNotFound, cell.name)
			continue
		}
		require.NoError(t, errs[i], cell.name)
		require.Equal(t, want.state, metas[i].Status, cell.name)
		if want.class != "" {
			exception, ok := metas[i].Result.(protocol.Exception)
			require.True(t, ok, "%s: %v", cell.name, metas[i].Result)
			require.Equal(t, want.class, exception.Type, cell.name)
		}
	}
}

// checkLetters also looks for anything else that is left.
func checkLetters(t *testing.T, l *live, cells []ackTask) {
	t.Helper()
	want := map[string]string{}
	for _, cell := range cells {
		if letter := expectedCell(cell.outcome, cell.policy).letter; letter != "" {
			want[cell.name] = letter
		}
	}
	require.NotEmpty(t, want)
	got := map[string]string{}
	for task, letter := range l.letters(t, "dead", len(want)) {
		got[task] = letter.Reason
		require.Equal(t, "acks", letter.From, task)
		require.Equal(t, 1, letter.Attempts, task)
		require.NotEmpty(t, letter.Detail, task)
		require.Equal(t, "celery@acks", letter.Worker, task)
	}
	require.Equal(t, want, got)
	require.Eventually(t, func() bool {
		for channel, depth := range l.depths(t) {
			if !strings.HasPrefix(channel, "celery-result-") && (channel != "dead" || depth != int64(len(want))) {
				return false
			}
		}
		return true
	}, livePatience, 20*time.Millisecond, "something is left in a queue")
}

// TestAckTableAgainstCelery holds the expectations to what a real Celery worker did.
func TestAckTableAgainstCelery(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../acks/testdata/behaviour_acks.json")
	require.NoError(t, err)
	var file struct {
		Rows []struct {
			Case     string          `json:"case"`
			Conf     map[string]bool `json:"conf"`
			Sequence []string        `json:"sequence"`
		} `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	checked := 0
	for _, row := range file.Rows {
		for outcome := range ackHandlers {
			name, _, _ := strings.Cut(strings.SplitN(row.Case, " ", 2)[1], " acks_on")
			if strings.TrimSuffix(name, " reject_on_worker_lost") != outcome {
				continue
			}
			policy := ackPolicy{late: row.Conf["task_acks_late"], onFailure: true, rejectOnLost: row.Conf["task_reject_on_worker_lost"]}
			for _, setting := range []string{"task_acks_on_failure", "task_acks_on_failure_or_timeout"} {
				if set, is := row.Conf[setting]; is {
					policy.onFailure = set
				}
			}
			checkAgainst(t, row.Case, expectedCell(outcome, policy), row.Sequence)
			checked++
		}
	}
	require.Equal(t, 22, checked)
}

// checkAgainst compares up to where our handler succeeds and Celery's goes on being
// rejected.
func checkAgainst(t *testing.T, name string, want ackCell, sequence []string) {
	t.Helper()
	events, stored := []string{}, ""
	for _, step := range sequence {
		event, isEvent := strings.CutPrefix(step, "ev:")
		store, isStore := strings.CutPrefix(step, "store:")
		switch {
		case isEvent && event != "task-received" && event != "task-started" && (len(events) == 0 || events[len(events)-1] != event):
			events = append(events, event)
		case isStore && stored == "" && !strings.HasPrefix(store, "RETRY"):
			stored = store
		}
	}
	ours := slices.DeleteFunc(slices.Clone(want.events), func(event string) bool {
		return event == "ignored" || strings.HasPrefix(event, "dead-letter ") // Celery has none of them
	})
	if name == "early reject requeue=True" {
		require.Empty(t, events, "Celery has lost it; if not, the row no longer differs")
		return
	}
	if slices.Contains(ours, "task-rejected(requeue=True)") {
		require.Equal(t, events, ours[:1], name)
		return
	}
	require.Equal(t, events, ours, name)
	require.Equal(t, stored, strings.Trim(string(want.state)+":"+want.class, ":"), name)
}

// TestAckTableColdShutdown is the cell that needs a worker of its own: what a cold
// shutdown cuts short goes back without having counted, if it is acked late.
func TestAckTableColdShutdown(t *testing.T) {
	t.Parallel()
	for name, config := range liveBrokers() {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " late ", late), func(t *testing.T) {
				t.Parallel()
				runColdShutdown(t, config, late)
			})
		}
	}
}

func runColdShutdown(t *testing.T, config broker.Config, late bool) {
	t.Helper()
	l := startLive(t, config)
	running := make(chan struct{})
	registry := tasks.NewRegistry()
	tasks.HandleArguments(registry, "t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
		close(running)
		<-ctx.Done()
		return nil, ctx.Err()
	}, tasks.AcksLate(late))
	options := DefaultOptions()
	options.Hostname, options.Concurrency, options.Queues = "celery@acks", 1, []string{"acks"}
	options.DeadLetterQueue, options.MaxAttempts = "dead", 2
	told := &history{}
	connection := l.transport(t)
	w, err := New(options, registry, connection, l.backend, told)
	require.NoError(t, err)
	startedAt(t, w)
	id := uuid.NewString()
	l.send(t, connection, protocol.Message{Task: "t", ID: id, Queue: "acks"})
	<-running
	w.Cancel()
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, []string{"task-cancelled"}, told.all()[id])
	meta, err := l.backend.Fetch(t.Context(), id)
	if late {
		require.ErrorIs(t, err, results.ErrNotFound)
		require.Equal(t, map[string]int64{"acks": 1}, l.depths(t), "and no note of the start")
		return
	}
	require.NoError(t, err)
	require.Equal(t, protocol.StateRetry, meta.Status)
	require.NotContains(t, l.depths(t), "acks")
}
