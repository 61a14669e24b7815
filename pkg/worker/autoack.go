package worker

import "github.com/lovage-project/lovage/pkg/tasks"

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
