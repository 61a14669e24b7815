package worker

import (
	"time"

	"github.com/lovage-project/lovage/pkg/acks"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
)

// job is the one value that walks the line. Each step fills in its part and
// reads those of the steps before it.
type job struct {
	// fetch
	delivery transport.Delivery

	// admit
	envelope     *protocol.Envelope
	message      *protocol.Message
	task         *tasks.Task
	request      *tasks.Request
	arguments    tasks.Arguments
	policy       acks.Policy
	ignoreResult bool
	storeErrors  bool
	received     bool // the observers know of it
	// mayBeStored: an earlier state of this task may be in the result backend.
	mayBeStored bool

	// run
	prerun  bool // the prerun hooks were called, the postrun hooks were not
	started time.Time
	runtime time.Duration
	value   any   // what is stored for a success
	err     error // what the handler returned
	outcome acks.Outcome
	// retry is what the handler asked for, in the bounds of the worker.
	retry *tasks.RetryError
}
