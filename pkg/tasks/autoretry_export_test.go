package tasks

// WithRandom replaces the random numbers of RetryJitter.
func WithRandom(random func(n int64) int64) Option {
	return func(o *Options) error {
		o.random = random
		return nil
	}
}

// Backoff is the wait of the automatic retry after so many retries.
func (o Options) Backoff(retries int) int64 { return int64(o.backoff(retries).Seconds()) }
