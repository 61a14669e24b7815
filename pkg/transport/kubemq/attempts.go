package kubemq

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"github.com/lovage-project/lovage/pkg/transport"
)

// The server doesn't count a delivery whose worker died (docs/protocol.md §12.3): it
// puts the message back in its place, as if nobody had taken it. So before a message
// is worked on a note is sent to a channel of its own, and the notes found there are
// the deliveries that came to nothing. Place and MessageID make the channel's name,
// so every copy of a message starts without notes, and notes that nobody removed
// can't be taken for those of another message (docs/decisions/0010).
const (
	notesPrefix = "lovage.attempts."
	// notesExpiry is when a note goes by itself whose worker died before it could
	// remove it: the longest that servers take unless they are configured otherwise.
	notesExpiry = 43_200 * time.Second
	// notesPatience bounds the removal of notes, which nothing depends on.
	notesPatience = 5 * time.Second
	// maxNotes bounds how many are removed, by the server's own limit.
	maxNotes = 1024
)

// notesChannel is the channel of the notes about this very message.
func (d *delivery) notesChannel() string {
	key := d.message.Channel + "\x00" + d.message.MessageID + "\x00" + strconv.FormatUint(d.place.sequence, 10)
	sum := sha256.Sum256([]byte(key))
	return notesPrefix + hex.EncodeToString(sum[:16])
}

// NoteStart is transport.StartNoter's.
func (d *delivery) NoteStart(ctx context.Context) (wasted int, err error) {
	channel := d.notesChannel()
	// A server that counts puts a copy at the tail, which has no notes.
	counted := attemptOf(d.message) - earlierAttempts(d.message) - 1
	note := &pb.QueueMessage{
		Channel: channel, Body: []byte(d.consumer.transport.publisher.id),
		Policy: &pb.QueueMessagePolicy{ExpirationSeconds: expirySeconds(notesExpiry)},
	}
	err = d.consumer.transport.send(ctx, note, 0)
	if err == nil || errors.Is(err, transport.ErrUnconfirmed) { // it may be there
		d.mu.Lock()
		d.notes = 1
		d.mu.Unlock()
	}
	if err != nil {
		return counted, fmt.Errorf("kubemq: note the start of a message of queue %q: %w", d.consumer.queue, err)
	}
	unsettled, err := d.consumer.transport.publisher.notesBefore(ctx, note)
	if err != nil {
		return counted, fmt.Errorf("kubemq: read the notes about a message of queue %q: %w", d.consumer.queue, err)
	}
	d.mu.Lock()
	// What this consumer remembers is in the notes, too.
	d.notes, d.earlier = unsettled+1, max(d.earlier, unsettled)
	d.mu.Unlock()
	return unsettled + counted, nil
}

// notesBefore is how many notes there are in the channel of one that was sent. Mostly
// it is the oldest, and a peek for one message tells that at once, however many queues
// the server has: to count takes longer with each of them (docs/protocol.md §16).
func (c *Client) notesBefore(ctx context.Context, note *pb.QueueMessage) (int, error) {
	oldest, err := c.Peek(ctx, note.Channel, 1, minGetWait)
	if err != nil || len(oldest) == 1 && oldest[0].MessageID == note.MessageID {
		return 0, err
	}
	known, err := c.Queues(ctx, note.Channel)
	before := 0
	for _, q := range known {
		before = max(0, min(int(q.Depth), maxNotes)-1)
	}
	return before, err
}

// dropNotes removes the notes about a message that is gone, without waiting for it:
// they are in nobody's way.
func (d *delivery) dropNotes(ctx context.Context) {
	notes := d.takeNotes()
	if notes == 0 {
		return
	}
	d.consumer.errands.start(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notesPatience)
		defer cancel()
		_ = d.consumer.transport.publisher.discard(ctx, d.notesChannel(), notes)
	})
}

// takeNoteBack removes the note of this delivery, because its message was not worked
// on to the end by the worker's own will. One that can't be removed counts.
func (d *delivery) takeNoteBack(ctx context.Context) {
	if d.takeNotes() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notesPatience)
	defer cancel()
	_ = d.consumer.transport.publisher.discard(ctx, d.notesChannel(), 1)
}

// takeNotes is how many notes there are to remove, once.
func (d *delivery) takeNotes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	notes := d.notes
	d.notes = 0
	return notes
}

// errands are what a consumer does on the side, until it is closed.
type errands struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// start runs work, unless the consumer is closed.
func (e *errands) start(work func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Go(work)
	}
}

// close waits for what runs.
func (e *errands) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.running.Wait()
}

// discard removes the oldest messages of a channel, so many as are known to be there:
// a server waits for that number before it answers.
func (c *Client) discard(ctx context.Context, channel string, messages int) error {
	answer, err := c.rpc.ReceiveQueueMessages(c.call(ctx), &pb.ReceiveQueueMessagesRequest{
		RequestID: rand.Text(), ClientID: c.id, Channel: channel,
		MaxNumberOfMessages: int32(min(messages, maxNotes)), WaitTimeSeconds: 1,
	}, grpc.WaitForReady(true))
	if err != nil {
		return c.failed(err)
	}
	if answer.IsError {
		return newServerError(answer.Error)
	}
	return nil
}
