package worker

import "github.com/lovage-project/lovage/pkg/tasks"

// autoAcks tells whether the broker acks the messages of a queue as it hands them over.
// Those of Ray Serve are tried again by their messages, and their producers know no way
// to have them lost.
func (w *Worker) autoAcks(queue string) bool {
	_, rayServe := w.options.RayServe[queue]
	return w.options.AutoAck && !rayServe
}

// acksLate is what holds for a task: nothing is left to ack late where the broker
// acks each message as it hands it over.
func (w *Worker) acksLate(task tasks.Options) bool {
	return !w.options.AutoAck && either(task.AcksLate, w.options.AcksLate)
}

// tellAcksLateIgnored names the tasks whose acks_late has no effect.
func (w *Worker) tellAcksLateIgnored() {
	if !w.options.AutoAck {
		return
	}
	var ignored []string
	for _, name := range w.registry.Names() {
		if task, _ := w.registry.Lookup(name); either(task.Options().AcksLate, w.options.AcksLate) {
			ignored = append(ignored, name)
		}
	}
	if len(ignored) > 0 {
		w.observe(AcksLateIgnored{Tasks: ignored})
	}
}
