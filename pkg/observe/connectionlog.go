package observe

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/lovage-project/lovage/pkg/transport"
)

// connectionLines are the lines about one connection: one when it is lost or can't
// be made, and one when it is there again. The attempts in between are for the
// level debug.
type connectionLines struct {
	log     *Log
	address string

	mu    sync.Mutex
	since time.Time // of the loss that was written, zero while all is well
}

func (c *connectionLines) hooks() transport.Hooks {
	return transport.Hooks{
		Lost: c.lost, Retrying: c.retrying, Restored: c.restored, GaveUp: c.gaveUp,
		Note: func(text string) { c.log.log(zapcore.InfoLevel, text) },
	}
}

// change notes a loss and tells whether it is news.
func (c *connectionLines) change() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.since.IsZero()
	if news {
		c.since = time.Now()
	}
	return news
}

func (c *connectionLines) lost(err error) {
	c.change()
	c.log.log(zapcore.WarnLevel,
		fmt.Sprintf("consumer: Connection to broker lost. Trying to re-establish the connection... (%v)", err))
}

func (c *connectionLines) retrying(err error, attempt int, wait time.Duration) {
	level := zapcore.DebugLevel
	if c.change() {
		level = zapcore.ErrorLevel
	}
	c.log.log(level, fmt.Sprintf("consumer: Cannot connect to %s: %v. Trying again in %.2f seconds... (%d)",
		c.address, err, wait.Seconds(), attempt))
}

func (c *connectionLines) restored() {
	c.mu.Lock()
	since := c.since
	c.since = time.Time{}
	c.mu.Unlock()
	c.log.log(zapcore.InfoLevel, fmt.Sprintf("Connected to %s after %s seconds", c.address, seconds(time.Since(since).Round(10*time.Millisecond))))
}

func (c *connectionLines) gaveUp(err error) {
	c.log.log(zapcore.DPanicLevel, fmt.Sprintf("consumer: Cannot connect to %s, the attempts are used up: %v", c.address, err))
}
