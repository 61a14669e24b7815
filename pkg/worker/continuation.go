package worker

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

func publisherOf(o Options) canvas.Publisher {
	return canvas.Publisher{
		Routes: o.TaskRoutes, DefaultQueue: cmp.Or(o.TaskDefaultQueue, "celery"),
		InheritPriority: o.TaskInheritParentPriority, Origin: o.Hostname, Timezone: o.Timezone,
	}
}

// continueSuccess publishes the link callbacks of a task that succeeded and the
// next step of its chain, as Celery before the result is stored. Where that can't
// be done a late task is handed back, and an early one has failed. A task that
// runs again publishes the same ids again.
func (w *Worker) continueSuccess(j *job) {
	if j.outcome != acks.Success {
		return
	}
	if followedBefore(j) {
		j.continued = true
		return
	}
	following, err := w.publisher.Success(j.message, j.value, time.Now())
	if err == nil {
		err = w.publishContinuation(j, following)
	}
	if err == nil {
		j.continued, j.children = true, following.Children
		return
	}
	j.err = unpublished(fmt.Errorf("worker: what follows %s[%s] could not be published: %w", j.message.Task, j.message.ID, err))
	j.outcome = acks.Failure
	if j.policy.Late && !hopeless(err) {
		j.outcome = acks.ResultUnstored
	}
}

// followedBefore tells whether the run that stored this success has published what
// follows: that comes before it is stored, and the record lists it.
func followedBefore(j *job) bool { return j.stored != nil && len(j.stored.Children) > 0 }

// unpublished is an error of publishing as Python gets it from Celery: kombu's.
func unpublished(err error) error {
	class := "OperationalError"
	if encode := (*protocol.EncodeError)(nil); errors.As(err, &encode) {
		class = "EncodeError"
	}
	return tasks.WithPythonClass(err, "kombu.exceptions", class)
}

// continueFailure follows a failure that is stored: the steps behind the task in
// its chain fail with it, then its errbacks are published. Where that can't be done
// a late task is handed back.
func (w *Worker) continueFailure(j *job, decision acks.Decision) acks.Decision {
	if decision.Store != acks.StoreFailure {
		return decision
	}
	err := w.failChain(j)
	if err == nil || !j.policy.Late { // an early task has no second chance
		err = errors.Join(err, w.publishErrbacks(j))
	}
	if err == nil || !j.policy.Late || hopeless(err) {
		return decision
	}
	j.outcome = acks.ResultUnstored
	return acks.Decide(j.policy, j.outcome)
}

// failChain stores the failure for the steps that never run. They do run where
// the next one was published before the task failed for another reason.
func (w *Worker) failChain(j *job) error {
	if j.continued || !j.storeErrors || !w.stores(j) {
		return nil
	}
	for _, step := range canvas.Rest(j.message) {
		m := meta(step.ID, protocol.StateFailure)
		m.GroupID, m.Result, m.Traceback = step.GroupID, exceptionOf(j), tasks.Traceback(j.err)
		if err := w.storeMeta(j, m, !j.mayBeStored); err != nil && !hopeless(err) {
			return err
		}
	}
	return nil
}

func (w *Worker) publishErrbacks(j *job) error {
	following, err := w.publisher.Failure(j.message, time.Now())
	if err != nil {
		return err
	}
	return w.publishContinuation(j, following)
}

// publishersOfGroup is how many members of a big group are on their way at once.
// They have no order among them, and one at a time each would wait for the disk of
// the broker.
const publishersOfGroup = 16

// publishContinuation publishes the messages in their order, each confirmed.
func (w *Worker) publishContinuation(j *job, following canvas.Continuation) error {
	for rest := following.Messages; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[0].Message.GroupID != "" && rest[n].Message.GroupID == rest[0].Message.GroupID {
			n++
		}
		if n <= publishersOfGroup {
			n = 1
		}
		if err := w.publishTogether(j, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// publishTogether publishes messages until one can't be published, and returns
// when none is on its way any more.
func (w *Worker) publishTogether(j *job, messages []canvas.Outgoing) error {
	var (
		group  errgroup.Group
		failed atomic.Bool
	)
	group.SetLimit(publishersOfGroup)
	for _, outgoing := range messages {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := w.publishOutgoing(j, outgoing)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}

func (w *Worker) publishOutgoing(j *job, outgoing canvas.Outgoing) error {
	message, err := w.wire(outgoing)
	if err == nil {
		err = w.publish(j, outgoing.Message.Queue, message)
	}
	if err != nil {
		return fmt.Errorf("%s[%s] to queue %q: %w", outgoing.Message.Task, outgoing.Message.ID, outgoing.Message.Queue, err)
	}
	return nil
}

// wire serializes a message as its signature says, or its task, or the settings.
func (w *Worker) wire(outgoing canvas.Outgoing) (transport.Outgoing, error) {
	m := outgoing.Message
	serializer := cmp.Or(outgoing.Serializer, w.taskSerializer(m.Task), w.options.TaskSerializer)
	envelope, err := protocol.EncodeMessage(m, protocol.EncodeOptions{
		Protocol: w.options.TaskProtocol, Serializer: serializer,
		Compression: cmp.Or(outgoing.Compression, w.options.TaskCompression),
	})
	if err != nil {
		return transport.Outgoing{}, err
	}
	envelope.Properties.Extra = outgoing.Properties
	if outgoing.Transient {
		envelope.Properties.DeliveryMode = 1
	}
	body, headers, err := envelope.Wire(uuid.NewString())
	return transport.Outgoing{Body: body, Headers: headers, Priority: m.Priority, Delay: w.serverDelay(m.ETA)}, err
}

// taskSerializer is the serializer of a task that is registered here, "" for
// others.
func (w *Worker) taskSerializer(name string) string {
	task, known := w.registry.Lookup(name)
	if !known {
		return ""
	}
	return task.Options().Serializer
}
