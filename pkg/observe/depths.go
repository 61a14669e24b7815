package observe

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// depthsAge is how old depths may be: several scrapers ask the broker once.
	depthsAge = 5 * time.Second
	// depthsPatience bounds the question: a scrape must not hang on a broker that is
	// away.
	depthsPatience = 2 * time.Second
)

var descDepth = prometheus.NewDesc("lovage_queue_depth",
	"Messages of a queue that are ready or in flight, by what the queue is for: tasks, dead_letters or unprocessable. "+
		"Missing while the broker doesn't tell.", []string{"queue", "role"}, nil)

// The roles of queues.
const (
	RoleTasks         = "tasks"
	RoleDeadLetters   = "dead_letters"
	RoleUnprocessable = "unprocessable"
)

// Depths are how many messages the worker's queues have.
type Depths struct {
	// Roles are the roles of the queues to tell of, by their names in Celery.
	Roles map[string]string
	// Ask asks the broker for the depth of each of its queues that has messages, by
	// the name in Celery.
	Ask func(ctx context.Context) (map[string]int64, error)

	mu    sync.Mutex
	at    time.Time
	known map[string]int64
	err   error // why the broker did not tell
}

// current are the depths, those of a moment ago if there are any. The map is not
// written to. One who asks and leaves spoils nobody's answer, so ctx is asked for its
// values only.
func (d *Depths) current(ctx context.Context) (map[string]int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || time.Since(d.at) >= depthsAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), depthsPatience)
		defer cancel()
		d.known, d.err = d.Ask(ctx)
		d.at = time.Now()
	}
	return d.known, d.err
}

// collect sends the depths, if the broker tells.
func (d *Depths) collect(to chan<- prometheus.Metric) {
	known, err := d.current(context.Background())
	if err != nil || known == nil {
		return
	}
	for queue, role := range d.Roles {
		to <- prometheus.MustNewConstMetric(descDepth, prometheus.GaugeValue, float64(known[queue]), queue, role)
	}
}
