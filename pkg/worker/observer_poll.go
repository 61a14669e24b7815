package worker

import "time"

type (
	// NoRetryCeiling means: the Ray Serve queue Queue has no failed-task queue or no
	// number of retries, so a task that fails is delivered again without an end. It
	// comes before Started.
	NoRetryCeiling struct{ Queue string }
	// Polled means: a request for messages of Queue took so long, what was waited for
	// them included, and got Delivered of them.
	Polled struct {
		Queue     string
		Took      time.Duration
		Delivered int
	}
)

func (NoRetryCeiling) event() {}
func (Polled) event()         {}
