package config

import (
	"slices"
	"strings"
	"time"
)

// RayServeQueue is a queue whose tasks come from Ray Serve's KubeMQ adapter. Names
// are the adapter's.
type RayServeQueue struct {
	// Name is the queue's, which is also that of its channel.
	Name string
	// MaxRetries is how often a task is delivered whose handler fails, the first
	// time included; FailedTaskQueue takes it then. Where one of them is not set (0,
	// "") a task that fails is delivered again without an end.
	MaxRetries      int
	FailedTaskQueue string
	// UnprocessableTaskQueue takes messages that are no tasks; "" drops them.
	UnprocessableTaskQueue string
	// ResultChannelPrefix begins the names of the queues that hold the results, never
	// empty. ResultExpiry is how long they can be read, in whole seconds up to a day;
	// 0 = as long as may be: a day.
	ResultChannelPrefix string
	ResultExpiry        time.Duration
	// MaxResultSize is the longest record of a result with its message, in bytes, at least 8192.
	MaxResultSize int
}

// rayServeFields are the keys that only a queue with protocol: rayserve takes.
func rayServeFields() []Setting {
	return []Setting{
		{Name: "max_retries", Kind: Int, Range: between(0, 1024), Default: "0"},
		{Name: "failed_task_queue", Kind: Text, Default: `""`},
		{Name: "unprocessable_task_queue", Kind: Text, Default: `""`},
		{Name: "result_channel_prefix", Kind: Text, Default: "rayserve-result-"},
		{Name: "result_expiry", Kind: Seconds, Range: between(0, 86_400), Default: "3600"},
		{Name: "max_result_size", Kind: Int, Range: between(8192, maxSize), Default: "4194304"},
	}
}

// CeleryQueues are the queues to consume that hold Celery's messages.
func (w *Worker) CeleryQueues() []string {
	return slices.DeleteFunc(slices.Clone(w.Queues), func(name string) bool {
		return slices.ContainsFunc(w.RayServe, func(queue RayServeQueue) bool { return queue.Name == name })
	})
}

// rayServe are the Ray Serve queues among those that are consumed.
func (b *builder) rayServe(entries []queueEntry, consumed []string) []RayServeQueue {
	var queues []RayServeQueue
	for _, entry := range entries {
		if as[string](entry.fields["protocol"]) != protocolRayServe {
			b.refuseRayServeFields(entry)
			continue
		}
		queue := b.rayServeQueue(entry)
		if !slices.Contains(consumed, entry.name) {
			continue
		}
		for _, aside := range []value{entry.fields["failed_task_queue"], entry.fields["unprocessable_task_queue"]} {
			if name := as[string](aside); slices.Contains(consumed, name) {
				b.fail(aside, quoted(name)+" is consumed by this worker: what is put aside would come back to it")
			}
		}
		queues = append(queues, queue)
	}
	return queues
}

func (b *builder) refuseRayServeFields(entry queueEntry) {
	for _, field := range rayServeFields() {
		if given, set := entry.fields[field.Name]; set {
			b.fail(given, "is for a queue with protocol: rayserve")
		}
	}
}

// rayServeQueue gathers what is said of a queue, with the defaults of the rest.
func (b *builder) rayServeQueue(entry queueEntry) RayServeQueue {
	for _, field := range rayServeFields() {
		if _, set := entry.fields[field.Name]; !set {
			entry.fields[field.Name] = value{name: field.Name, decoded: field.defaultValue()}
		}
	}
	queue := RayServeQueue{
		Name:                   entry.name,
		MaxRetries:             as[int](entry.fields["max_retries"]),
		FailedTaskQueue:        as[string](entry.fields["failed_task_queue"]),
		UnprocessableTaskQueue: as[string](entry.fields["unprocessable_task_queue"]),
		ResultChannelPrefix:    as[string](entry.fields["result_channel_prefix"]),
		ResultExpiry:           as[time.Duration](entry.fields["result_expiry"]),
		MaxResultSize:          as[int](entry.fields["max_result_size"]),
	}
	if strings.TrimSpace(queue.ResultChannelPrefix) == "" {
		// The rest of the name is the task's id, which a stranger chooses: any queue
		// could be meant.
		b.fail(entry.fields["result_channel_prefix"], `"" is not allowed: results need queues of their own`)
	}
	if queue.ResultExpiry%time.Second != 0 {
		b.fail(entry.fields["result_expiry"], queue.ResultExpiry.String()+" is not allowed: whole seconds")
	}
	return queue
}
