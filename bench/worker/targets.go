package main

import (
	"fmt"
	"math"
)

// target is a figure that the worker should reach.
type target struct {
	What string `json:"what"`
	// Limit is the wanted value: at least, or at most.
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"`
	Unit    string  `json:"unit"`
	// Value is what was measured, nil where the run did not measure it.
	Value *float64 `json:"value"`
}

const (
	unitRatio        = "ratio"
	unitBytes        = "bytes"
	unitMilliseconds = "milliseconds"
)

// targetsOf are the targets with what a report says to them.
func targetsOf(r *report) []target {
	slots := func(key string) *float64 {
		l := r.line(key)
		if l == nil || l.cell.takes == 0 {
			return nil
		}
		return new(l.Rate / (float64(l.cell.slots) / l.cell.takes.Seconds()))
	}
	return []target{
		atLeast("early ack, batch, no-op ÷ ceiling (1,000 slots)", 0.8, r.rateRatio("early-batch-1000", "ceiling-1000")),
		atLeast("late ack with results, no-op ÷ its ceiling (1,000 slots)", 0.7, r.rateRatio("late-results-1000", "ceiling-1000-results")),
		atLeast("tasks/s, no-op, results off ÷ Celery prefork on Redis", 20, r.rateRatio("early-64", "celery-prefork")),
		atMost("CPU a no-op task ÷ Celery prefork", unitRatio, 1.0/30, r.cpuRatio("early-64", "celery-prefork")),
		atLeast("tasks/s, no-op, late ÷ asynq on Redis", 2.5, r.rateRatio("late-64", "asynq")),
		atMost("CPU a no-op task, late ÷ asynq", unitRatio, 1.0/3, r.cpuRatio("late-64", "asynq")),
		atLeast("8 slots × 20 ms, late ÷ (slots ÷ handler time)", 0.95, slots("8x20ms")),
		atLeast("10,000 slots × 1 s ÷ (slots ÷ handler time)", 0.95, slots("10000x1s")),
		atMost("10,000 slots × 1 s: memory", unitBytes, 300<<20, r.memory("10000x1s")),
		atMost("publish → handler start, idle, p50 ÷ a bare get", unitRatio, 2, r.latencyRatio(func(l *latencyLine) []float64 { return l.P50s })),
		atMost("publish → handler start, idle, p99 ÷ a bare get", unitRatio, 4, r.latencyRatio(func(l *latencyLine) []float64 { return l.P99s })),
		atMost("memory of an idle worker, broker outside", unitBytes, 30<<20, r.start(func(s *startLine) []float64 { return s.Memory })),
		atMost("memory under load (late, results, 64 slots), broker outside", unitBytes, 80<<20, r.memory("late-results-64")),
		atMost("exec → first task", unitMilliseconds, 300, r.start(func(s *startLine) []float64 { return s.Milliseconds })),
		atLeast("GOMAXPROCS 1 → 2, no-op; the broker needs the cores too", 1.7, r.rateRatio("two-cores", "one-core")),
		atLeast("GOMAXPROCS 1 → 2, tasks that compute for 200 µs", 1.7, r.rateRatio("two-cores-spin", "one-core-spin")),
		atLeast("a fast queue beside a slow one ÷ beside an empty one", 0.95, r.rateRatio("fast-beside-slow", "fast-alone")),
	}
}

func atLeast(what string, limit float64, value *float64) target {
	return target{What: what, Limit: limit, AtLeast: true, Unit: unitRatio, Value: value}
}

func atMost(what, unit string, limit float64, value *float64) target {
	return target{What: what, Limit: limit, Unit: unit, Value: value}
}

// rateRatio is the median of the rounds' ratios; nil where one is missing.
func (r *report) rateRatio(key, against string) *float64 {
	l, reference := r.line(key), r.line(against)
	if l == nil || reference == nil {
		return nil
	}
	return middleOf(ratios(l.Rates, reference.Rates))
}

func (r *report) cpuRatio(key, against string) *float64 {
	l, reference := r.line(key), r.line(against)
	if l == nil || reference == nil {
		return nil
	}
	return middleOf(ratios(l.CPU, reference.CPU))
}

func (r *report) memory(key string) *float64 {
	if l := r.line(key); l != nil {
		return middleOf(l.Memory)
	}
	return nil
}

func (r *report) latencyRatio(of func(*latencyLine) []float64) *float64 {
	l, reference := r.latency(latencyStart), r.latency(latencyGet)
	if l == nil || reference == nil {
		return nil
	}
	return middleOf(ratios(of(l), of(reference)))
}

func (r *report) start(of func(*startLine) []float64) *float64 {
	if s := r.startLine(startLovage); s != nil {
		return middleOf(of(s))
	}
	return nil
}

// middleOf is the median of values, nil if there are none.
func middleOf(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	return new(median(values))
}

func (t target) met() bool {
	if t.AtLeast {
		return *t.Value >= t.Limit
	}
	return *t.Value <= t.Limit
}

func (t target) verdict() string {
	switch {
	case t.Value == nil:
		return "not measured"
	case t.met():
		return "met"
	default:
		return "**missed**"
	}
}

func (t target) wanted() string {
	if t.AtLeast {
		return "≥ " + t.text(t.Limit)
	}
	return "≤ " + t.text(t.Limit)
}

func (t target) measured() string {
	if t.Value == nil {
		return ""
	}
	return t.text(*t.Value)
}

func (t target) text(value float64) string {
	switch {
	case t.Unit == unitBytes:
		return mebibytes(value)
	case t.Unit == unitMilliseconds:
		return fmt.Sprintf("%.0f ms", value)
	case t.Limit < 0.5 && value > 0: // a small share reads better as a divisor
		return fmt.Sprintf("1/%.*f", precision(1/value), 1/value)
	default:
		return times(value)
	}
}

// precision is how many digits behind the point a number needs.
func precision(value float64) int {
	if value < 10 && math.Abs(value-math.Round(value)) > 0.05 {
		return 1
	}
	return 0
}
