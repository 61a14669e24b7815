package acks_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/acks"
)

// celery is Celery's default policy.
func celery(late bool) acks.Policy { return acks.Policy{Late: late, OnFailure: true, OnTimeout: true} }

// TestDecide states every cell a second time, by hand, from the protocol's
// description instead of the table.
func TestDecide(t *testing.T) {
	type cell struct {
		settle acks.Settlement
		store  acks.Store
		events []acks.Event
	}
	e := func(events ...acks.Event) []acks.Event { return events }
	for outcome, want := range map[acks.Outcome]struct{ early, late cell }{
		acks.Success: {
			cell{acks.None, acks.StoreSuccess, e(acks.Succeeded)},
			cell{acks.Ack, acks.StoreSuccess, e(acks.Succeeded)},
		},
		acks.Failure: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Ack, acks.StoreFailure, e(acks.Failed)},
		},
		acks.EncodeFailure: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Ack, acks.StoreFailure, e(acks.Failed)},
		},
		acks.Retry: {
			cell{acks.None, acks.StoreRetry, e(acks.Retried)},
			cell{acks.Ack, acks.StoreRetry, e(acks.Retried)},
		},
		acks.RetryUnpublished: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Requeue, acks.StoreNothing, e(acks.RejectedRequeue)},
		},
		acks.Ignore: {
			cell{acks.None, acks.StoreNothing, nil},
			cell{acks.Ack, acks.StoreNothing, nil},
		},
		acks.Reject: {
			cell{acks.Discard, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Discard, acks.StoreFailure, e(acks.Failed, acks.RejectedForGood)},
		},
		acks.RejectRequeue: {
			cell{acks.Republish, acks.StoreNothing, nil},
			cell{acks.Requeue, acks.StoreNothing, e(acks.RejectedRequeue)},
		},
		acks.SoftTimeLimit: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Ack, acks.StoreFailure, e(acks.Failed)},
		},
		acks.HardTimeLimit: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Ack, acks.StoreFailure, e(acks.Failed)},
		},
		acks.WorkerLost: {
			cell{acks.None, acks.StoreFailure, e(acks.Failed)},
			cell{acks.Ack, acks.StoreFailure, e(acks.Failed)},
		},
		acks.Terminated: {
			cell{acks.None, acks.StoreRevoked, e(acks.RevokedEvent)},
			cell{acks.Ack, acks.StoreRevoked, e(acks.RevokedEvent)},
		},
		acks.Revoked: {
			cell{acks.Ack, acks.StoreRevoked, e(acks.RevokedEvent)},
			cell{acks.Ack, acks.StoreRevoked, e(acks.RevokedEvent)},
		},
		acks.Expired: {
			cell{acks.Ack, acks.StoreRevoked, e(acks.RevokedEvent)},
			cell{acks.Ack, acks.StoreRevoked, e(acks.RevokedEvent)},
		},
		acks.Cancelled: {
			cell{acks.None, acks.StoreRetry, e(acks.CancelledEvent)},
			cell{acks.Release, acks.StoreNothing, e(acks.CancelledEvent)},
		},
		acks.ResultUnstored: {
			cell{acks.None, acks.StoreNothing, nil},
			cell{acks.Requeue, acks.StoreNothing, e(acks.RejectedRequeue)},
		},
		acks.Exhausted: {
			cell{acks.Discard, acks.StoreFailure, e(acks.Failed, acks.RejectedForGood)},
			cell{acks.Discard, acks.StoreFailure, e(acks.Failed, acks.RejectedForGood)},
		},
	} {
		for late, want := range map[bool]cell{false: want.early, true: want.late} {
			got := acks.Decide(celery(late), outcome)
			require.Equal(t, want, cell{got.Settle, got.Store, got.Events}, "%v, late %v", outcome, late)
		}
	}
}

func TestDecideFlags(t *testing.T) {
	for name, c := range map[string]struct {
		policy  acks.Policy
		outcome acks.Outcome
		settle  acks.Settlement
		store   acks.Store
	}{
		"acks_on_failure=False rejects a failure":                {acks.Policy{Late: true, OnTimeout: true}, acks.Failure, acks.Discard, acks.StoreFailure},
		"acks_on_failure=False rejects an encode failure":        {acks.Policy{Late: true, OnTimeout: true}, acks.EncodeFailure, acks.Discard, acks.StoreFailure},
		"acks_on_failure=False rejects a soft limit":             {acks.Policy{Late: true, OnTimeout: true}, acks.SoftTimeLimit, acks.Discard, acks.StoreFailure},
		"acks_on_failure=False rejects a lost worker":            {acks.Policy{Late: true, OnTimeout: true}, acks.WorkerLost, acks.Discard, acks.StoreFailure},
		"acks_on_failure=False leaves a hard limit alone":        {acks.Policy{Late: true, OnTimeout: true}, acks.HardTimeLimit, acks.Ack, acks.StoreFailure},
		"acks_on_timeout=False requeues a hard limit":            {acks.Policy{Late: true, OnFailure: true}, acks.HardTimeLimit, acks.Requeue, acks.StoreFailure},
		"acks_on_timeout=False leaves a failure alone":           {acks.Policy{Late: true, OnFailure: true}, acks.Failure, acks.Ack, acks.StoreFailure},
		"reject_on_worker_lost requeues and stores nothing":      {acks.Policy{Late: true, OnFailure: true, RejectOnWorkerLost: true}, acks.WorkerLost, acks.Requeue, acks.StoreNothing},
		"reject_on_worker_lost beats acks_on_failure=False":      {acks.Policy{Late: true, RejectOnWorkerLost: true}, acks.WorkerLost, acks.Requeue, acks.StoreNothing},
		"reject_on_worker_lost has no effect on an early ack":    {acks.Policy{OnFailure: true, RejectOnWorkerLost: true}, acks.WorkerLost, acks.None, acks.StoreFailure},
		"no flag matters to an early ack":                        {acks.Policy{}, acks.Failure, acks.None, acks.StoreFailure},
		"an outcome that does not exist is a failure":            {acks.Policy{Late: true, OnFailure: true}, acks.Outcome(99), acks.Ack, acks.StoreFailure},
		"a retry is acked even with acks_on_failure=False":       {acks.Policy{Late: true}, acks.Retry, acks.Ack, acks.StoreRetry},
		"a success is acked even with acks_on_failure=False":     {acks.Policy{Late: true}, acks.Success, acks.Ack, acks.StoreSuccess},
		"a failure is redelivered and stores nothing":            {acks.Policy{Late: true, OnFailure: true, Redeliver: true}, acks.Failure, acks.Nack, acks.StoreNothing},
		"redelivery beats acks_on_failure=False":                 {acks.Policy{Late: true, Redeliver: true}, acks.Failure, acks.Nack, acks.StoreNothing},
		"redelivery goes for a soft limit, too":                  {acks.Policy{Late: true, Redeliver: true}, acks.SoftTimeLimit, acks.Nack, acks.StoreNothing},
		"redelivery goes for a hard limit, too":                  {acks.Policy{Late: true, Redeliver: true}, acks.HardTimeLimit, acks.Nack, acks.StoreNothing},
		"an encode failure fails in the same way again":          {acks.Policy{Late: true, OnFailure: true, Redeliver: true}, acks.EncodeFailure, acks.Ack, acks.StoreFailure},
		"an early task can't be redelivered":                     {acks.Policy{OnFailure: true, Redeliver: true}, acks.Failure, acks.None, acks.StoreFailure},
		"a late task cut short by a cold shutdown is given back": {acks.Policy{Late: true, OnFailure: true}, acks.Cancelled, acks.Release, acks.StoreNothing},
	} {
		got := acks.Decide(c.policy, c.outcome)
		require.Equal(t, c.settle, got.Settle, name)
		require.Equal(t, c.store, got.Store, name)
	}
}

// TestDifferences lists the deliberate differences, so that adding or losing one
// is a decision.
func TestDifferences(t *testing.T) {
	different := map[string]bool{}
	for _, late := range []bool{false, true} {
		for outcome := acks.Success; outcome <= acks.Exhausted; outcome++ {
			if acks.Decide(celery(late), outcome).Differs != "" {
				different[map[bool]string{true: "late ", false: "early "}[late]+outcome.String()] = true
			}
		}
	}
	require.Equal(t, map[string]bool{
		"late retry unpublished": true, "early reject": true, "early reject requeue": true, "early hard time limit": true,
		"late hard time limit": true, "late result unstored": true,
		"early exhausted": true, "late exhausted": true,
	}, different)
}

// TestAgainstCelery compares the table with what a real Celery worker did.
func TestAgainstCelery(t *testing.T) {
	raw, err := os.ReadFile("testdata/behaviour_acks.json")
	require.NoError(t, err)
	var file struct {
		Rows []struct {
			Case     string          `json:"case"`
			Conf     map[string]bool `json:"conf"`
			Sequence []string        `json:"sequence"`
		} `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	outcomes := []struct {
		word    string
		outcome acks.Outcome
	}{
		{"success", acks.Success}, {"reject requeue=True", acks.RejectRequeue}, {"reject requeue=False", acks.Reject},
		{"retry", acks.Retry}, {"ignore", acks.Ignore}, {"timeout", acks.HardTimeLimit}, {"worker lost", acks.WorkerLost},
		{"system exit", acks.WorkerLost}, {"terminate", acks.Terminated}, {"encode error", acks.EncodeFailure},
		{"expired", acks.Expired}, {" failure", acks.Failure},
	}
	checked := 0
	for _, row := range file.Rows {
		if strings.HasSuffix(row.Case, " unknown") {
			continue // not an outcome of a task: the engine's admit step
		}
		for _, o := range outcomes {
			// "late failure acks_on_failure_or_timeout=False" is about a failure.
			if strings.Contains(strings.Split(row.Case, " acks_on")[0], o.word) {
				checkRow(t, row.Case, row.Conf, row.Sequence, o.outcome)
				checked++
				break
			}
		}
	}
	require.Equal(t, len(file.Rows)-2, checked)
}

func checkRow(t *testing.T, name string, conf map[string]bool, sequence []string, outcome acks.Outcome) {
	t.Helper()
	on := func(key string) bool {
		if v, ok := conf[key]; ok {
			return v
		}
		if v, ok := conf["task_acks_on_failure_or_timeout"]; ok {
			return v
		}
		return true
	}
	got := acks.Decide(acks.Policy{
		Late: conf["task_acks_late"], OnFailure: on("task_acks_on_failure"), OnTimeout: on("task_acks_on_timeout"),
		RejectOnWorkerLost: conf["task_reject_on_worker_lost"],
	}, outcome)

	stores := map[acks.Store]string{
		acks.StoreNothing: "", acks.StoreSuccess: "SUCCESS", acks.StoreFailure: "FAILURE", acks.StoreRetry: "RETRY",
		acks.StoreRevoked: "REVOKED",
	}
	require.Equal(t, stores[got.Store], firstState(sequence), "%s: stored", name)

	seen := strings.Join(sequence, " ")
	for _, event := range got.Events {
		celeryName := "ev:" + strings.NewReplacer("=false", "=False", "=true", "=True").Replace(string(event))
		require.Contains(t, seen, celeryName, name)
	}
	republished := regexp.MustCompile(`publish:\S+:r0.*publish:\S+:r0`).MatchString(seen)
	if got.Settle == acks.Republish {
		require.False(t, republished, "%s: Celery publishes again after all: the row no longer differs", name)
		require.NotEmpty(t, got.Differs)
		return
	}
	require.Equal(t, republished, got.Settle == acks.Requeue, "%s: requeued", name)
}

// firstState is the first state that was stored for the task; states like
// "FAILURE:dict" are written by the capture's own probes afterwards.
func firstState(sequence []string) string {
	for _, step := range sequence {
		if rest, ok := strings.CutPrefix(step, "store:"); ok {
			state, class, _ := strings.Cut(rest, ":")
			if strings.Contains(class, "GoError") || class == "dict" {
				continue
			}
			return state
		}
	}
	return ""
}
