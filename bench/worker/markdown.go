package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// markdown is the report for people.
func (r *report) markdown() string {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s, %d cores (%s), load before the run %.1f, %s; %d rounds, alternating, windows of at most %s; the run took %s.\nVersions: %s.\n",
		r.Machine.Processor, r.Machine.Cores, r.Machine.System, r.Machine.Load, r.Date.UTC().Format(time.DateOnly), r.Rounds, r.Window, r.Took,
		strings.Join(r.Versions, ", "))
	if r.Quick {
		fmt.Fprintln(out, "A quick run: it shows that the benchmark works, and no more.")
	}
	fmt.Fprintln(out)
	r.writeTargets(out)
	r.writeLines(out)
	r.writeLatencies(out)
	r.writeStarts(out)
	return out.String()
}

func (r *report) writeTargets(out *strings.Builder) {
	fmt.Fprintln(out, "| target | wanted | measured | |")
	fmt.Fprintln(out, "|---|--:|--:|---|")
	for _, t := range r.Targets {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", t.What, t.wanted(), t.measured(), t.verdict())
	}
	fmt.Fprintln(out)
}

func (r *report) writeLines(out *strings.Builder) {
	fmt.Fprintln(out, "| what | handler | broker | payload | acks | results | conc. | counted | tasks/s | spread | ratio | CPU/task | allocs/task | memory |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|--:|---|--:|--:|--:|--:|--:|--:|")
	for _, l := range r.Lines {
		ratio := ""
		if l.Ratio > 0 {
			ratio = fmt.Sprintf("%s of `%s`", times(l.Ratio), l.Against)
		}
		allocations := ""
		if objects := median(l.Objects); objects > 0 {
			allocations = fmt.Sprintf("%.0f (%.0f B)", objects, median(l.Bytes))
		}
		fmt.Fprintf(out, "| `%s` %s | %s | %s | %s | %s | %s | %d | %s | %s | %.0f %% | %s | %s | %s | %s |\n",
			l.Key, l.What, l.Handler, l.Broker, l.Payload, l.Acks, l.Results, l.Concurrency, l.Counted,
			count(l.Rate), 100*l.Spread, ratio, micros(median(l.CPU)), allocations, mebibytes(median(l.Memory)))
	}
	fmt.Fprintln(out)
}

func (r *report) writeLatencies(out *strings.Builder) {
	if len(r.Latency) == 0 {
		return
	}
	fmt.Fprintln(out, "| latency | tasks/s | samples | p50 | p99 | p99.9 |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|")
	for _, l := range r.Latency {
		fmt.Fprintf(out, "| %s | %s | %d | %s | %s | %s |\n", l.What, count(l.Rate), l.Samples, millis(l.P50), millis(l.P99), millis(l.P999))
	}
	fmt.Fprintln(out)
}

func (r *report) writeStarts(out *strings.Builder) {
	if len(r.Starts) == 0 {
		return
	}
	fmt.Fprintln(out, "| start | exec → first task | memory, idle |")
	fmt.Fprintln(out, "|---|--:|--:|")
	for _, s := range r.Starts {
		fmt.Fprintf(out, "| %s | %s | %s |\n", s.What, millis(median(s.Milliseconds)), mebibytes(median(s.Memory)))
	}
	fmt.Fprintf(out, "\nThe worker's binary has %s.\n", mebibytes(float64(r.Binary)))
}

// count writes a number with three digits that mean something.
func count(n float64) string {
	unit := 1.0
	for n/unit >= 1000 {
		unit *= 10
	}
	rounded := strconv.FormatFloat(float64(int64(n/unit+0.5))*unit, 'f', 0, 64)
	for i := len(rounded) - 3; i > 0; i -= 3 {
		rounded = rounded[:i] + "," + rounded[i:]
	}
	return rounded
}

// times writes a ratio.
func times(ratio float64) string {
	switch {
	case ratio >= 10:
		return fmt.Sprintf("%.0f ×", ratio)
	case ratio >= 2:
		return fmt.Sprintf("%.1f ×", ratio)
	case ratio >= 0.1:
		return fmt.Sprintf("%.0f %%", 100*ratio)
	default:
		return fmt.Sprintf("%.1f %%", 100*ratio)
	}
}

func micros(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) + " µs" }

func millis(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f ms", n)
	}
	return fmt.Sprintf("%.2f ms", n)
}

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
