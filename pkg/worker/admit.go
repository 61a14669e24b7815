package worker

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// admit decides whether the task of a delivery runs now. Where it returns false
// the delivery is settled or waits for its ETA.
func (w *Worker) admit(j *job) bool {
	if j.request == nil { // not back from the parking
		if err := j.dialect.decode(j); err != nil {
			w.refuse(j, err)
			return false
		}
		w.prepare(j)
	}
	if !w.fresh(j, w.window.look) {
		return false
	}
	now := time.Now()
	if expires := j.message.Expires; !expires.IsZero() && now.After(expires) {
		j.outcome = acks.Expired
		w.settle(j)
		return false
	}
	if rest := j.message.ETA.Sub(now); !j.message.ETA.IsZero() && rest > 0 {
		return w.wait(j, rest)
	}
	w.receive(j)
	return true
}

// knows tells whether a task is registered here.
func (w *Worker) knows(task string) bool {
	_, known := w.registry.Lookup(task)
	return known
}

// prepare finds the task and works out which settings hold for this message.
func (w *Worker) prepare(j *job) {
	m := j.message
	j.task, _ = w.registry.Lookup(m.Task)
	options := j.task.Options()
	j.policy = j.dialect.policy(options)
	j.ignoreResult = j.dialect.ignoresResult(m, options)
	j.storeErrors = !j.ignoreResult || either(options.StoreErrorsEvenIfIgnored, w.options.StoreErrorsEvenIfIgnored)
	j.mayBeStored = j.dialect.callersCancel() || m.Retries > 0 || m.Redelivered || j.delivery.Redelivered() || w.mayBeKnown()
	j.arguments = tasks.Arguments{Kwargs: m.Kwargs}
	j.arguments.Args, j.err = m.Positional() // an error is the task's failure, see run
	j.request = w.newRequest(j)
}

// mayBeKnown tells whether a state may be stored for a message that looks new: a
// worker that died between storing a late task's result and its ack leaves no trace on
// the message, and a task may be published again under the id of one that has ended.
// Looking costs a second on servers that make a look wait; there the chance is taken.
func (w *Worker) mayBeKnown() bool { return w.transport.Capabilities().MinWait == 0 }

func (w *Worker) newRequest(j *job) *tasks.Request {
	m := j.message
	return &tasks.Request{
		ID: m.ID, Task: m.Task, Shadow: m.Shadow, RootID: m.RootID, ParentID: m.ParentID,
		GroupID: m.GroupID, GroupIndex: m.GroupIndex,
		Retries: m.Retries, MaxRetries: j.dialect.maxRetries(j.task.Options()),
		ETA: m.ETA, Expires: m.Expires,
		Args: j.arguments.Args, Kwargs: j.arguments.Kwargs, Headers: m.CustomHeaders,
		Queue: j.delivery.Queue(), Hostname: w.options.Hostname, Origin: m.Origin,
		ReplyTo: m.ReplyTo, CorrelationID: m.CorrelationID, Priority: m.Priority,
		Attempt: j.delivery.Attempt(), Redelivered: m.Redelivered || j.delivery.Redelivered(),
		IgnoreResult: j.ignoreResult, TimeLimit: m.TimeLimit, SoftTimeLimit: m.SoftTimeLimit,
		StampedHeaders: m.StampedHeaders, Stamps: m.Stamps,
	}
}

// receive tells the observers once, however often the job comes by.
func (w *Worker) receive(j *job) {
	if j.received {
		return
	}
	j.received = true
	w.observe(TaskReceived{Request: j.request, Queued: queued(j.delivery)})
	returned := false
	defer func() {
		if !returned { // a hook has ended its goroutine
			w.requeue(j)
		}
	}()
	w.callReceivedHooks(j)
	returned = true
}

// wait holds a task back until its ETA: with the broker as long as its tick
// allows, and only the rest in memory. It is true where the task may run after
// all, because the rest was waited for here.
func (w *Worker) wait(j *job, rest time.Duration) bool {
	if tick := w.transport.Capabilities().DelayTick; tick > 0 && rest >= tick {
		w.postpone(j, rest.Truncate(tick))
		return false
	}
	w.receive(j)
	if w.parked.park(w.fetchContext, rest, func(waited bool) { w.due(j, waited) }) {
		return false
	}
	// No place left: waiting on the slot slows fetching down, as it should.
	if pause.For(w.fetchContext, rest) != nil {
		w.handBack(j)
		return false
	}
	return true
}

// due sends a job whose ETA has come back to the pool.
func (w *Worker) due(j *job, waited bool) {
	if !waited || j.share.reserveFirst(w.fetchContext) != nil {
		w.handBack(j)
		return
	}
	w.pool.submit(j)
}

// postpone gives the message back to the broker with a delay, in hops where the
// ETA is beyond the broker's maximum. It is no attempt, so the count stays.
func (w *Worker) postpone(j *job, delay time.Duration) {
	if longest := w.transport.Capabilities().MaxDelay; longest > 0 {
		delay = min(delay, longest)
	}
	if w.settleDelivery(j, "postpone", func(ctx context.Context) error { return j.delivery.Postpone(ctx, delay) }) == nil {
		w.observe(TaskPostponed{Request: j.request, Delay: delay})
	}
}

func (w *Worker) handBack(j *job) { w.settleBest(j, "hand back", j.delivery.Release) }

func (w *Worker) trackStarted(j *job) bool {
	return !j.ignoreResult && either(j.task.Options().TrackStarted, w.options.TrackStarted)
}

// either is the setting that was made, or the fallback.
func either(set *bool, fallback bool) bool {
	if set != nil {
		return *set
	}
	return fallback
}
