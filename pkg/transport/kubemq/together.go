package kubemq

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

const (
	// maxTogether bounds the messages of one request.
	maxTogether = 256
	// maxTogetherBytes is the largest message that shares a request: one that is larger
	// would hold up those of others, and gains nothing.
	maxTogetherBytes = 64 << 10
)

// SendTogether is Send for messages that many callers send at the same time: while one
// request is on its way those that come meanwhile gather, and share the next one. A
// message that nobody came along with is sent as by Send, and so is every second try:
// servers have lost the answer to a shared request (docs/protocol.md §10), which makes
// a duplicate, so this is for messages that are harmless twice. Where it returns
// because ctx has ended, the message must not be changed any more.
func (c *Client) SendTogether(ctx context.Context, message *pb.QueueMessage) error {
	if message.Size() > maxTogetherBytes {
		return c.Send(ctx, message)
	}
	return c.sendUntil(ctx, message, c.gathered.send)
}

// gathered are the messages that wait for the next shared request.
type gathered struct {
	client *Client

	mu      sync.Mutex
	waiting []*sharing
	sending bool
	stopped bool
	running sync.WaitGroup
}

// sharing is one message of a shared request.
type sharing struct {
	message *pb.QueueMessage
	answer  *pb.SendQueueMessageResult
	// done receives the error of the request, once; answer is set before.
	done chan error
}

// send is one attempt, with whatever else is there to be sent.
func (g *gathered) send(ctx context.Context, message *pb.QueueMessage) error {
	one := &sharing{message: message, done: make(chan error, 1)}
	if !g.add(one) {
		return fmt.Errorf("kubemq: %w", transport.ErrStopped)
	}
	select {
	case err := <-one.done:
		if err != nil {
			return err
		}
		return confirm(message, one.answer)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add has one sent with the next request; false after stop.
func (g *gathered) add(one *sharing) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.waiting = append(g.waiting, one)
	if !g.sending {
		g.sending = true
		g.running.Go(g.run)
	}
	return true
}

// run sends what waits and ends when there is no more. No caller's context ends it:
// each request has its time.
func (g *gathered) run() {
	for batch := g.next(); len(batch) > 0; batch = g.next() {
		err := g.sendBatch(batch)
		for _, one := range batch {
			one.done <- err
		}
	}
}

func (g *gathered) next() []*sharing {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxTogether)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.sending = n > 0
	return batch
}

func (g *gathered) sendBatch(batch []*sharing) (err error) {
	if len(batch) == 1 {
		batch[0].answer, err = g.client.sendOne(context.Background(), batch[0].message)
		return err
	}
	request := &pb.QueueMessagesBatchRequest{BatchID: rand.Text(), Messages: make([]*pb.QueueMessage, len(batch))}
	patience := sendTimeout
	for i, one := range batch {
		request.Messages[i] = one.message
		patience += onTheLine(len(one.message.Body) + len(one.message.Metadata))
	}
	ctx, cancel := context.WithTimeout(g.client.call(context.Background()), patience)
	defer cancel()
	answer, err := g.client.rpc.SendQueueMessagesBatch(ctx, request, grpc.WaitForReady(true))
	if err != nil {
		// Not wrapped: what is refused is the request, not each of its messages.
		return fmt.Errorf("kubemq: send %d messages together: %v", len(batch), g.client.failed(err)) //nolint:errorlint // see above
	}
	if len(answer.Results) != len(batch) {
		return fmt.Errorf("kubemq: send %d messages together: %d answers", len(batch), len(answer.Results))
	}
	for i, one := range batch {
		one.answer = answer.Results[i]
	}
	return nil
}

// stop waits for what runs; the connection is closed.
func (g *gathered) stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.running.Wait()
}
