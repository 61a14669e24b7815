package main

import (
	"fmt"
	"strconv"
	"time"
)

// What is measured.
const (
	systemCeiling  = "bare loop"
	systemLovage   = "Lovage"
	systemCelery   = "Celery"
	systemAsynq    = "asynq"
	systemGocelery = "gocelery"
)

// Where messages are.
const (
	brokerMemory  = "embedded, in memory, own process"
	brokerDurable = "embedded, durable, own process"
	brokerInside  = "embedded, durable, in the worker"
	brokerRedis   = "Redis"
)

// cell is a thing to measure: a worker, the queue it works on and how it is set up.
type cell struct {
	// key names the cell in the targets and in the JSON file.
	key string
	// against is the key of the cell that the ratio refers to, "" for none.
	against string

	system, broker string
	// pool is Celery's kind of pool.
	pool string
	// strategy is Lovage's way to take messages, "" = auto.
	strategy string
	late     bool
	results  bool
	slots    int
	// cores is the worker's GOMAXPROCS, 0 = all.
	cores int
	// prefetch is Celery's multiplier.
	prefetch int
	// loglevel is Lovage's, "" = error.
	loglevel string

	task    task
	payload int // bytes
	// takes is how long the handler waits, spins how many rounds it computes.
	takes time.Duration
	spins int
	// messages are in the queue before the worker starts.
	messages int
	// beside has the worker consume a second queue; slow messages of a second each are
	// in it.
	beside bool
	slow   int
}

// whole says that the backlog is worked off to its end, because its tasks end in
// waves.
func (c cell) whole() bool { return c.takes > 0 }

func (c cell) name() string {
	name := c.system
	if c.pool != "" {
		name += " " + c.pool
	}
	if c.strategy != "" {
		name += ", " + c.strategy
	}
	if c.cores > 0 {
		name += fmt.Sprintf(", GOMAXPROCS=%d", c.cores)
	}
	if c.loglevel != "" {
		name += ", log level " + c.loglevel
	}
	return name
}

func (c cell) handler() string {
	switch {
	case c.takes > 0:
		return fmt.Sprintf("waits %v", c.takes)
	case c.spins > 0:
		return fmt.Sprintf("computes %d rounds", c.spins)
	case c.slow > 0:
		return "no-op; a queue of 1 s tasks beside"
	case c.beside:
		return "no-op; an empty queue beside"
	default:
		return "no-op"
	}
}

func (c cell) size() string {
	switch {
	case c.payload == 0:
		return "none"
	case c.payload%1024 == 0:
		return strconv.Itoa(c.payload/1024) + " KiB"
	default:
		return strconv.Itoa(c.payload) + " B"
	}
}

func (c cell) acks() string {
	switch {
	case c.system == systemCeiling:
		return "each batch"
	case c.system == systemGocelery:
		return "on receipt"
	case c.late || c.system == systemAsynq:
		return "late"
	default:
		return "early"
	}
}

func (c cell) stores() string {
	if c.results || c.system == systemGocelery { // which has no switch
		return "stored"
	}
	return "off"
}

// counted says what the rate counts.
func (c cell) counted() string {
	if c.whole() {
		return "whole backlog"
	}
	return "left the queue"
}
