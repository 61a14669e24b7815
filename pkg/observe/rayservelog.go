package observe

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/lovage-project/lovage/pkg/worker"
)

func (l *Log) noRetryCeiling(e worker.NoRetryCeiling) {
	l.logger.Warn(fmt.Sprintf("Tasks of %s that fail are delivered again without an end: max_retries and failed_task_queue are not both set",
		e.Queue), zap.String("queue", e.Queue))
}

// ResultKept writes that the result of a Ray Serve task could not be stored and is
// tried again in the background.
func (l *Log) ResultKept(id string, err error) {
	l.logger.Warn(fmt.Sprintf("Couldn't store the result of [%s], it is kept in memory and tried again: %v", id, err), zap.String("id", id))
}

// ResultDropped writes that the result of a Ray Serve task will never be stored.
func (l *Log) ResultDropped(id string, err error) {
	l.logger.Error(fmt.Sprintf("The result of [%s] is lost: %v", id, err), zap.String("id", id))
}

// ResultReplaced writes that the result of a Ray Serve task can't be stored as it is, so
// that its record says why instead.
func (l *Log) ResultReplaced(id string, err error) {
	l.logger.Warn(fmt.Sprintf("The result of [%s] can't be stored as it is: %v", id, err), zap.String("id", id))
}
