package main

import (
	"context"
	"time"
)

// schedule says when messages are due: at a steady rate, whatever becomes of the
// earlier ones. A latency counts from when its message was due, so that what is sent
// late, because something had stalled, counts the stall (no coordinated omission).
type schedule struct {
	begin time.Time
	rate  float64 // a second
	count int
}

// due is when message i is.
func (s schedule) due(i int) time.Time {
	return s.begin.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
}

// maxDue bounds how many messages are handed over at once.
const maxDue = 100

// each calls send when messages are due, or as soon as it can be, with the first of them
// and the one behind the last: a producer that is behind sends what has piled up at once.
func (s schedule) each(ctx context.Context, send func(first, end int) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for first := 0; first < s.count; {
		if ahead := time.Until(s.due(first)); ahead > 0 {
			timer.Reset(ahead)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		end := first + 1
		for now := time.Now(); end < min(s.count, first+maxDue) && !s.due(end).After(now); {
			end++
		}
		if err := send(first, end); err != nil {
			return err
		}
		first = end
	}
	return nil
}
