package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// checkRayServeNames refuses Ray Serve queues whose names are not those of their
// channels: the adapter's producers know channels only. What is put aside goes where
// target allows it.
func checkRayServeNames(w config.Worker, target func(setting, queue string) error) error {
	for _, queue := range w.RayServe {
		for _, other := range w.CeleryQueues() {
			if sameChannel(other, queue.Name) {
				return fmt.Errorf("queues: %q and %q are one channel and can't speak two protocols", queue.Name, other)
			}
		}
		named := "queues." + queue.Name
		if err := checkChannel(named, queue.Name); err != nil {
			return err
		}
		if err := checkChannel(named+".result_channel_prefix", queue.ResultChannelPrefix+"id"); err != nil {
			return err
		}
		if err := checkAside(named+".failed_task_queue", queue.FailedTaskQueue, target); err != nil {
			return err
		}
		if err := checkAside(named+".unprocessable_task_queue", queue.UnprocessableTaskQueue, target); err != nil {
			return err
		}
		if err := checkResultPrefix(named+".result_channel_prefix", queue.ResultChannelPrefix, w); err != nil {
			return err
		}
	}
	return nil
}

// checkAside refuses a queue for what is put aside; "" drops it.
func checkAside(setting, queue string, target func(setting, queue string) error) error {
	if queue == "" {
		return nil
	}
	if err := checkChannel(setting, queue); err != nil {
		return err
	}
	return target(setting, queue)
}

// checkChannel refuses a name that KubeMQ would have under another one.
func checkChannel(setting, name string) error {
	channel, err := kubemq.ChannelName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	if channel != name {
		return fmt.Errorf("%s: %q is the channel %q on KubeMQ, and Ray Serve's producers know it by one name only", setting, name, channel)
	}
	return nil
}

// checkResultPrefix refuses a prefix that a queue of tasks or of other results begins
// with: storing a result removes what is in the result's queue, and the rest of its name
// is the task's id, which a stranger chooses.
func checkResultPrefix(setting, prefix string, w config.Worker) error {
	for _, queue := range slices.Sorted(maps.Keys(rolesOf(w))) {
		channel, err := kubemq.ChannelName(queue)
		if err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
		if strings.HasPrefix(channel, prefix) {
			return fmt.Errorf("%s: the queue %q begins with %q: a result could take its place", setting, queue, prefix)
		}
	}
	others := []string{resultskubemq.DefaultPrefix}
	for _, queue := range w.RayServe {
		others = append(others, queue.ResultChannelPrefix)
	}
	for _, other := range others {
		if other != prefix && strings.HasPrefix(other, prefix) {
			return fmt.Errorf("%s: the prefix %q of other results begins with %q: a result could take the place of another task's", setting, other, prefix)
		}
	}
	return nil
}

// addRayServeRoles says what the queues beside Ray Serve's are for.
func addRayServeRoles(roles map[string]string, queues []config.RayServeQueue) {
	for _, queue := range queues {
		if queue.UnprocessableTaskQueue != "" {
			roles[queue.UnprocessableTaskQueue] = observe.RoleUnprocessable
		}
		if queue.FailedTaskQueue != "" {
			roles[queue.FailedTaskQueue] = observe.RoleDeadLetters
		}
	}
}

// queueNames are those of the queues to consume, for a line of the log.
func queueNames(w config.Worker) string {
	names := slices.Clone(w.Queues)
	for i, name := range names {
		if slices.ContainsFunc(w.RayServe, func(queue config.RayServeQueue) bool { return queue.Name == name }) {
			names[i] += " (rayserve)"
		}
	}
	return strings.Join(names, ", ")
}

// queuesText says which protocol each queue speaks, and what follows from that, a line
// each.
func queuesText(w config.Worker) string {
	byName := map[string]config.RayServeQueue{}
	for _, queue := range w.RayServe {
		byName[queue.Name] = queue
	}
	var text strings.Builder
	for _, name := range w.Queues {
		queue, rayServe := byName[name]
		protocol := "celery"
		if rayServe {
			protocol = "rayserve, " + rayServeText(queue)
		}
		fmt.Fprintf(&text, "queue %s: %s\n", printable(name), protocol)
	}
	return text.String()
}

func rayServeText(queue config.RayServeQueue) string {
	failed, unprocessable := "a task that fails comes again without an end", "bad messages are dropped"
	if queue.MaxRetries > 0 && queue.FailedTaskQueue != "" {
		failed = fmt.Sprintf("a task that has failed %d times goes to %s", queue.MaxRetries, queue.FailedTaskQueue)
	}
	if queue.UnprocessableTaskQueue != "" {
		unprocessable = "bad messages go to " + queue.UnprocessableTaskQueue
	}
	return failed + ", " + unprocessable
}
