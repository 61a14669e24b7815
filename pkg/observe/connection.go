package observe

import (
	"fmt"
	"sync"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Connection follows the connection to a broker through its transport's hooks. The
// zero value is one that was never there.
type Connection struct {
	mu         sync.Mutex
	up         bool
	since      time.Time // of the loss, zero before the first
	reason     error
	reconnects uint64
}

// Hooks are hooks to give to the transport; each is passed on to next.
func (c *Connection) Hooks(next transport.Hooks) transport.Hooks {
	lost, restored := next.Lost, next.Restored
	next.Lost = func(err error) {
		c.lose(err)
		if lost != nil {
			lost(err)
		}
	}
	next.Restored = func() {
		c.restore()
		if restored != nil {
			restored()
		}
	}
	return next
}

// Started says that the transport has started: the connection is there, unless a hook
// has told since that it is lost.
func (c *Connection) Started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = c.up || c.since.IsZero()
}

func (c *Connection) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.since, c.reason = false, time.Now(), err
}

func (c *Connection) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() { // else it comes up for the first time
		c.reconnects++
	}
	c.up = true
}

// Reconnects is how often the connection came back after a loss.
func (c *Connection) Reconnects() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnects
}

// Err is nil while the connection stands, else says since when and why it doesn't.
func (c *Connection) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.up:
		return nil
	case c.since.IsZero():
		return fmt.Errorf("observe: %w yet", errNotConnected)
	default:
		return fmt.Errorf("observe: %w for %s: %w", errNotConnected, time.Since(c.since).Round(time.Second), c.reason)
	}
}
