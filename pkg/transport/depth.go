package transport

import "context"

// Depther is a Transport whose broker tells how long its queues are.
type Depther interface {
	// Depths returns for each of queues, by its Celery name, how many messages are ready
	// or in flight, those of other workers included; delayed ones are not counted. A
	// queue that never had a message has 0. It asks the broker's administration and
	// looks into no queue. A name that the broker can't take is ErrName.
	Depths(ctx context.Context, queues ...string) (map[string]int64, error)
}
