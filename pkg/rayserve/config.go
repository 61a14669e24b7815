package rayserve

import (
	"cmp"
	"fmt"
	"time"

	results "github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// DefaultQueryTimeout is the adapter's sync_inference_timeout.
const DefaultQueryTimeout = 30 * time.Second

// Config describes a client. Its values should be those of the queue's workers.
type Config struct {
	// Connection says how to reach the broker. Its MaxReceiveCount, MaxReceiveQueue and
	// Strategy are not used.
	Connection kubemq.Config
	// Queue is the name of the tasks' queue (queue_name). It is used as it is: a name that
	// no server takes is transport.ErrName.
	Queue string
	// MaxRetries is how many times a task may be delivered, at most
	// kubemq.MaxReceiveCountLimit, and FailedTaskQueue where the broker puts it then
	// (max_retries, failed_task_queue_name). They count where both are set.
	MaxRetries      int
	FailedTaskQueue string
	// ResultPrefix comes before the task id in the name of its result's queue
	// (result_channel_prefix); empty means "rayserve-result-".
	ResultPrefix string
	// ResultExpiry is how long what this client stores stays readable
	// (result_expiry_seconds), from a second to a day; 0 means an hour.
	ResultExpiry time.Duration
	// QueryTimeout is how long Query waits unless it is told (sync_inference_timeout); 0
	// means DefaultQueryTimeout.
	QueryTimeout time.Duration
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	c.ResultPrefix = cmp.Or(c.ResultPrefix, results.DefaultPrefix)
	c.ResultExpiry = cmp.Or(c.ResultExpiry, results.DefaultExpiry)
	c.QueryTimeout = cmp.Or(c.QueryTimeout, DefaultQueryTimeout)
	if c.MaxRetries == 0 || c.FailedTaskQueue == "" {
		c.MaxRetries, c.FailedTaskQueue = 0, ""
	}
	c.Connection.MaxReceiveCount, c.Connection.MaxReceiveQueue = 0, ""
	// A client takes nothing, so the broker need not be probed for how to.
	c.Connection.Strategy = kubemq.StrategyDirect
	return c
}

func (c Config) validate() error {
	if err := kubemq.CheckChannel(c.Queue); err != nil {
		return fmt.Errorf("rayserve: config: queue: %w", err)
	}
	if c.FailedTaskQueue != "" {
		if err := kubemq.CheckChannel(c.FailedTaskQueue); err != nil {
			return fmt.Errorf("rayserve: config: failed task queue: %w", err)
		}
	}
	if c.MaxRetries < 0 || c.MaxRetries > kubemq.MaxReceiveCountLimit {
		return fmt.Errorf("rayserve: config: max retries %d is not between 0 and %d", c.MaxRetries, kubemq.MaxReceiveCountLimit)
	}
	if c.ResultExpiry < time.Second || c.ResultExpiry > results.MaxExpiry {
		return fmt.Errorf("rayserve: config: result expiry %s is not between 1s and %s", c.ResultExpiry, results.MaxExpiry)
	}
	if c.QueryTimeout < 0 {
		return fmt.Errorf("rayserve: config: query timeout %s is negative", c.QueryTimeout)
	}
	return nil
}
