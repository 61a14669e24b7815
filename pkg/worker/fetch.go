package worker

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// idleWait is how long a consumer with nothing to do waits for a message. It
	// is also the server's shortest wait on the 2023 KubeMQ server.
	idleWait = time.Second
	// contendedPause is how long an idle queue leaves the slots to busy queues
	// before it looks again.
	contendedPause = 50 * time.Millisecond
)

// fetcher is the first step for one queue: reserve slots, then ask for as many
// messages. It is used by its own goroutine only.
type fetcher struct {
	worker   *Worker
	queue    string
	consumer transport.Consumer
	dialect  dialect
	share    *share
	alone    bool // the only queue of this worker

	// found is how many messages the last request got: a queue that was empty asks
	// with one slot, so that it doesn't hold slots that a busy queue can use.
	found int
	// yield is set when the slots of an empty queue were needed by others.
	yield bool
	// refused is set while the broker refuses the requests.
	refused bool
}

func (f *fetcher) run(ctx context.Context) {
	failures := backoff.NewExponentialBackOff()
	for {
		most := f.most()
		reserved, err := f.share.reserve(ctx, most)
		if err != nil {
			return
		}
		if reserved < most {
			reserved += f.share.more(most - reserved)
		}
		err = f.receive(ctx, reserved)
		if ctx.Err() != nil {
			return
		}
		f.note(err)
		if err == nil {
			failures.Reset()
			// Two empty queues with one slot would pass it to and fro for ever.
			if f.yield && pause.For(ctx, contendedPause) != nil {
				return
			}
			continue
		}
		f.worker.observe(FetchFailed{Queue: f.queue, Err: err})
		if errors.Is(err, transport.ErrStopped) || pause.For(ctx, failures.NextBackOff()) != nil {
			return
		}
	}
}

// note has Consuming tell whether requests are refused.
func (f *fetcher) note(err error) {
	switch {
	case err != nil && !f.refused:
		f.worker.refused.Add(1)
	case err == nil && f.refused:
		f.worker.refused.Add(-1)
	}
	f.refused = err != nil
}

// most is how many slots to reserve at most.
func (f *fetcher) most() int {
	if f.alone || f.found > 0 {
		return f.worker.slots.total()
	}
	return 1
}

// receive asks for as many messages as slots are reserved, hands them to the
// pool and gives the other slots back.
func (f *fetcher) receive(ctx context.Context, reserved int) error {
	request := transport.ReceiveRequest{Slots: reserved, Wait: idleWait, AutoAck: f.worker.autoAcks(f.queue)}
	// Waiting on an empty queue holds a slot: not while another queue, or a task
	// that is due, needs it.
	contended := !f.alone && f.worker.slots.contended()
	if contended {
		request.Wait = 0
	} else {
		var end context.CancelFunc
		ctx, end = f.worker.slots.lend(ctx)
		defer end()
	}
	delivered, asked := 0, time.Now()
	err := f.consumer.Receive(ctx, request, func(delivery transport.Delivery) {
		delivered++
		f.worker.delivered.Store(time.Now().UnixNano())
		j := &job{delivery: delivery, dialect: f.dialect, share: f.share}
		if notifier, ok := delivery.(transport.SentNotifier); ok {
			notifier.NotifySent(func() { f.worker.pool.leaveEarly(j) })
		}
		f.worker.pool.submit(j)
	})
	took := time.Since(asked)
	f.worker.observe(Polled{Queue: f.queue, Took: took, Delivered: delivered})
	f.yield = !f.alone && delivered == 0 && (contended || ctx.Err() != nil)
	if delivered > 0 || ctx.Err() == nil || took >= recallGrace { // else it was given up before an answer could come
		f.found = delivered
		f.share.setBusy(delivered > 0)
	}
	f.share.release(reserved - delivered)
	return err
}
