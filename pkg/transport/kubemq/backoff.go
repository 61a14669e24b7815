package kubemq

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// newBackOff gives waits of 50 ms, doubling to 5 s, each spread by half so that
// many workers don't come back at the same moment.
func newBackOff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 50 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: 5 * time.Second,
	}
}
