package main

import (
	"runtime"
	"time"
)

// Sizes of a backlog: enough for seconds of work, and published in a second or so.
const (
	many     = 120_000
	some     = 40_000
	few      = 4_000
	celeries = 12_000
)

// spinRounds is about 200 µs of computing.
const spinRounds = 200_000

// pairings are all cells, in the order in which each round measures them.
func pairings() []cell {
	var all []cell
	for _, group := range [][]cell{ceilings(), workers(), handlers(), brokers(), scaling(), queues(), celery(), goPeers()} {
		all = append(all, group...)
	}
	for i := range all {
		all[i] = all[i].complete()
	}
	return all
}

// complete fills in what most cells have in common.
func (c cell) complete() cell {
	if c.broker == "" {
		c.broker = brokerMemory
	}
	switch {
	case c.takes > 0:
		c.task = task{name: "bench.wait", args: []any{c.takes.Milliseconds()}}
	case c.spins > 0:
		c.task = task{name: "bench.spin", args: []any{int64(c.spins)}}
	default:
		c.task = noop(c.payload)
	}
	return c
}

func ceilings() []cell {
	return []cell{
		{key: "ceiling-64", system: systemCeiling, slots: 64, messages: many},
		{key: "ceiling-1000", system: systemCeiling, slots: 1000, messages: many},
		{key: "ceiling-64-results", system: systemCeiling, slots: 64, results: true, messages: some},
		{key: "ceiling-1000-results", system: systemCeiling, slots: 1000, results: true, messages: some},
	}
}

func workers() []cell {
	return []cell{
		{key: "early-batch-64", against: "ceiling-64", system: systemLovage, strategy: "batch", slots: 64, messages: many},
		{key: "early-batch-1000", against: "ceiling-1000", system: systemLovage, strategy: "batch", slots: 1000, messages: many},
		{key: "early-64", against: "ceiling-64", system: systemLovage, slots: 64, messages: some},
		{key: "early-1000", against: "ceiling-1000", system: systemLovage, slots: 1000, messages: many},
		{key: "late-1", against: "late-64", system: systemLovage, late: true, slots: 1, messages: few},
		{key: "late-8", against: "late-64", system: systemLovage, late: true, slots: 8, messages: some},
		{key: "late-64", against: "ceiling-64", system: systemLovage, late: true, slots: 64, messages: some},
		{key: "late-1000", against: "ceiling-1000", system: systemLovage, late: true, slots: 1000, messages: many},
		{key: "late-results-64", against: "ceiling-64-results", system: systemLovage, late: true, results: true, slots: 64, messages: some},
		{key: "late-results-1000", against: "ceiling-1000-results", system: systemLovage, late: true, results: true, slots: 1000, messages: some},
		{key: "late-results-batch-1000", against: "ceiling-1000-results", system: systemLovage, strategy: "batch", late: true, results: true, slots: 1000, messages: some},
		{key: "late-1k", against: "late-64", system: systemLovage, late: true, slots: 64, payload: 1 << 10, messages: some},
		{key: "late-100k", against: "late-64", system: systemLovage, late: true, slots: 64, payload: 100 << 10, messages: 2_000},
		{key: "late-results-info", against: "late-results-64", system: systemLovage, late: true, results: true, slots: 64, loglevel: "info", messages: some},
	}
}

func handlers() []cell {
	return []cell{
		{key: "8x1ms", system: systemLovage, late: true, slots: 8, takes: time.Millisecond, messages: 12_000},
		{key: "8x20ms", system: systemLovage, late: true, slots: 8, takes: 20 * time.Millisecond, messages: 1_600},
		{key: "64x20ms", system: systemLovage, late: true, results: true, slots: 64, takes: 20 * time.Millisecond, messages: 6_400},
		{key: "1000x1s", system: systemLovage, late: true, slots: 1000, takes: time.Second, messages: 3_000},
		{key: "10000x1s", system: systemLovage, late: true, slots: 10_000, takes: time.Second, messages: 100_000},
	}
}

func brokers() []cell {
	return []cell{
		{key: "durable", against: "late-64", system: systemLovage, broker: brokerDurable, late: true, slots: 64, messages: some},
		{key: "inside", against: "durable", system: systemLovage, broker: brokerInside, late: true, slots: 64, messages: some},
		{key: "inside-results", against: "inside", system: systemLovage, broker: brokerInside, late: true, results: true, slots: 64, messages: some},
	}
}

func scaling() []cell {
	return []cell{
		{key: "one-core", system: systemLovage, late: true, slots: 64, cores: 1, messages: some},
		{key: "two-cores", against: "one-core", system: systemLovage, late: true, slots: 64, cores: 2, messages: some},
		{key: "one-core-spin", system: systemLovage, late: true, slots: 64, cores: 1, spins: spinRounds, messages: 16_000},
		{key: "two-cores-spin", against: "one-core-spin", system: systemLovage, late: true, slots: 64, cores: 2, spins: spinRounds, messages: 24_000},
	}
}

func queues() []cell {
	return []cell{
		{key: "fast-alone", system: systemLovage, late: true, slots: 64, beside: true, messages: some},
		{key: "fast-beside-slow", against: "fast-alone", system: systemLovage, late: true, slots: 64, beside: true, slow: 1000, messages: some},
	}
}

func celery() []cell {
	cores := runtime.NumCPU()
	return []cell{
		{key: "celery-prefork", against: "early-64", system: systemCelery, pool: "prefork", broker: brokerRedis, slots: cores, prefetch: 16, messages: celeries},
		{key: "celery-prefork-results", against: "late-results-64", system: systemCelery, pool: "prefork", broker: brokerRedis, results: true, slots: cores, prefetch: 16, messages: celeries},
		{key: "celery-threads", against: "early-64", system: systemCelery, pool: "threads", broker: brokerRedis, slots: 8, prefetch: 16, messages: celeries},
		{key: "celery-threads-results", against: "late-results-64", system: systemCelery, pool: "threads", broker: brokerRedis, results: true, slots: 8, prefetch: 16, messages: celeries},
		{key: "celery-gevent", against: "early-64", system: systemCelery, pool: "gevent", broker: brokerRedis, slots: 64, prefetch: 4, messages: celeries},
		{key: "celery-gevent-results", against: "late-results-64", system: systemCelery, pool: "gevent", broker: brokerRedis, results: true, slots: 64, prefetch: 4, messages: celeries},
	}
}

func goPeers() []cell {
	return []cell{
		{key: "asynq", against: "late-64", system: systemAsynq, broker: brokerRedis, slots: 64, messages: 24_000},
		{key: "gocelery", against: "late-results-64", system: systemGocelery, broker: brokerRedis, slots: 64, messages: few},
	}
}
