package worker

import (
	"sync/atomic"
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
	dialect  dialect
	share    *share // of the slots, which the job's is given back to
	pass     *pass  // through the pool
	// until is when nobody waits for the end any more; zero for ever.
	until time.Time

	// admit
	envelope     *protocol.Envelope // of a message that is refused
	message      *protocol.Message
	created      string // when the task was made, in the words of its producer; "" in Celery's protocol
	task         *tasks.Task
	request      *tasks.Request
	arguments    tasks.Arguments
	policy       acks.Policy
	ignoreResult bool
	storeErrors  bool
	received     bool // the observers know of it
	// mayBeStored: an earlier state of this task may be in the result backend.
	mayBeStored bool
	// identity is what a duplicate of the message has too, "" where nothing tells one.
	identity identity

	// stored is the end of an earlier run, where that stands for this one: of a SUCCESS
	// value is the result.
	stored *protocol.Meta
	// failedBefore is the FAILURE of an earlier delivery, where one is known.
	failedBefore *protocol.Meta
	// claimed: no duplicate of the message runs in this worker.
	claimed bool

	// run
	prerun  bool // the prerun hooks were called, the postrun hooks were not
	started time.Time
	// progressed: the handler has stored how far it is.
	progressed atomic.Bool
	// revoked: its caller cancelled the task while the handler ran.
	revoked bool
	runtime time.Duration
	value   any   // what is stored for a success
	err     error // what the handler returned
	outcome acks.Outcome
	// retry is what the handler asked for, in the bounds of the worker; nil if nothing.
	retry *tasks.RetryError

	// settle
	continued bool  // what follows the success is published
	children  []any // the result tuples of that
}
