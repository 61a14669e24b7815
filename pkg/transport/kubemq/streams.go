package kubemq

import (
	"context"
	"fmt"
	"sync"

	"github.com/lovage-project/lovage/pkg/transport"
)

// recycleGets is after how many Gets a stream is replaced: the server keeps the
// messages of each in memory until the stream ends.
const recycleGets = 5_000

// streams are the open streams of a consumer.
type streams struct {
	client *Client
	// spare is how many streams without work are kept.
	spare int

	mu     sync.Mutex
	all    []*stream
	closed bool
	// closing are the streams that are being closed in the background.
	closing sync.WaitGroup
}

// take finds a stream on which no Get waits, and no transaction is open unless
// shared, or opens one. It counts as waiting from then on.
func (p *streams) take(ctx context.Context, shared bool) (*stream, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, fmt.Errorf("kubemq: consumer: %w", transport.ErrStopped)
	}
	for _, s := range p.all {
		if !s.waiting && (shared || s.open == 0) && s.gets < recycleGets && !s.broken() {
			s.waiting = true
			s.gets++
			p.mu.Unlock()
			return s, nil
		}
	}
	p.mu.Unlock()
	s, err := openStream(ctx, p.client)
	if err != nil {
		return nil, err
	}
	s.waiting, s.gets = true, 1
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.all = append(p.all, s)
	}
	p.mu.Unlock()
	if closed {
		s.close()
		return nil, fmt.Errorf("kubemq: consumer: %w", transport.ErrStopped)
	}
	return s, nil
}

// answered notes that the Get on s is over; opened tells whether it left an open
// transaction.
func (p *streams) answered(s *stream, opened bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waiting = false
	if opened {
		s.open++
	}
	p.trim()
}

// ended notes that a transaction on s is over.
func (p *streams) ended(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.open--
	p.trim()
}

// trim closes streams without work that are broken, worn out or too many.
func (p *streams) trim() {
	spare := 0
	kept := p.all[:0]
	for _, s := range p.all {
		busy := s.waiting || s.open > 0
		usable := s.gets < recycleGets && spare < p.spare
		switch {
		case s.broken(), !busy && !usable:
			p.closing.Go(s.close)
			continue
		case !busy:
			spare++
		}
		kept = append(kept, s)
	}
	clear(p.all[len(kept):])
	p.all = kept
}

// close closes all streams and waits.
func (p *streams) close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all = nil
	p.mu.Unlock()
	for _, s := range all {
		p.closing.Go(s.close)
	}
	p.closing.Wait()
}
