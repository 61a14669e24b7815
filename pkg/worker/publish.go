package worker

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

// publishPatience is how long a copy is tried to be published before the task is
// settled as one whose copy could not be published.
const publishPatience = 30 * time.Second

// publish sends a copy of a job's message and returns nil only when the broker
// has confirmed it. Sending again after an unconfirmed try may duplicate the
// copy; not sending it again may lose it.
func (w *Worker) publish(j *job, queue string, message transport.Outgoing) error {
	ctx, cancel := context.WithTimeout(w.settleContext, publishPatience)
	defer cancel()
	try := func() (struct{}, error) {
		err := w.transport.Publish(ctx, queue, message)
		if errors.Is(err, transport.ErrDelay) {
			// The broker's maximum was learnt by this; the rest is another hop.
			if longest := w.transport.Capabilities().MaxDelay; longest < message.Delay {
				message.Delay = longest
				err = w.transport.Publish(ctx, queue, message)
			}
		}
		if permanent(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, try, backoff.WithNotify(func(err error, _ time.Duration) {
		w.observe(PublishFailed{ID: j.request.ID, Queue: queue, Err: err})
	}), backoff.WithMaxElapsedTime(publishPatience))
	if err != nil {
		w.observe(PublishFailed{ID: j.request.ID, Queue: queue, Err: err, GivenUp: true})
	}
	return err
}

// permanent tells whether trying again can't help.
func permanent(err error) bool { return hopeless(err) || errors.Is(err, transport.ErrStopped) }

// hopeless tells whether no worker can do it, now or later: running the task again
// for it would only run it again for ever.
func hopeless(err error) bool {
	if err == nil {
		return false
	}
	var encode *protocol.EncodeError
	return errors.Is(err, transport.ErrTooLarge) || errors.Is(err, transport.ErrName) || errors.As(err, &encode)
}
