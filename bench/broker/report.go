package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What the 2023 server does: KubeMQ Community v2.4.0, measured earlier on another
// 2-core machine, one client, messages per second by size of batch. A hint, no
// comparison: only what is measured in one run can be compared.
var (
	send2023 = map[int]float64{1: 1_750, 10: 12_400, 100: 28_600, 1000: 59_000}
	get2023  = map[int]float64{1: 1_010, 10: 8_700, 100: 30_700, 1000: 66_900}
)

// latency2023 is the average of the same server, send to waiting Get.
const latency2023 = 1500 * time.Microsecond

func render(syncs [2]float64, reports []report) string {
	out := &strings.Builder{}
	nothing, memory, durable := reports[0], reports[1], reports[2]
	fmt.Fprintf(out, "Messages per second, bodies of %d bytes. \"Nothing\" is a server that answers the same requests and\n", bodyBytes)
	fmt.Fprintf(out, "does nothing. \"2023\" is KubeMQ Community v2.4.0, measured earlier on another 2-core machine.\n")
	fmt.Fprintf(out, "Syncs of the data directory per second: %s before, %s after.\n\n", count(syncs[0]), count(syncs[1]))
	fmt.Fprintln(out, "| | batch | clients | nothing | memory | durable | durable/nothing | 2023 | durable/2023 | allocs/msg memory | durable |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, w := range workloads {
		row(out, "send", w, nothing.send[w], memory.send[w], durable.send[w], send2023[w.batch])
	}
	for _, w := range workloads {
		row(out, "get + ack", w, nothing.get[w], memory.get[w], durable.get[w], get2023[w.batch])
	}
	round := nothing.send[workloads[0]].perSecond
	fmt.Fprintf(out, "\nA bare round trip on a stream, from the first line: %s.\n", millis(time.Duration(float64(time.Second)/round)))
	fmt.Fprintln(out, "\n| | memory | durable | 2023 |")
	fmt.Fprintln(out, "|---|--:|--:|--:|")
	fmt.Fprintf(out, "| send to waiting Get, p50 | %s | %s | %s (average) |\n", millis(memory.latency.p50), millis(durable.latency.p50), millis(latency2023))
	fmt.Fprintf(out, "| send to waiting Get, p99 | %s | %s | |\n", millis(memory.latency.p99), millis(durable.latency.p99))
	fmt.Fprintf(out, "| delayed: sent per second | %s | %s | |\n", count(memory.delayed.sent), count(durable.delayed.sent))
	fmt.Fprintf(out, "| delayed: arrived and acked per second | %s | %s | |\n", count(memory.delayed.arrived), count(durable.delayed.arrived))
	return out.String()
}

func row(out *strings.Builder, name string, w workload, nothing, memory, durable figure, earlier float64) {
	old, ratio := "", ""
	if w.clients == 1 {
		old, ratio = count(earlier), fmt.Sprintf("%.1f", durable.perSecond/earlier)
	}
	fmt.Fprintf(out, "| %s | %d | %d | %s | %s | %s | %.2f | %s | %s | %.1f (%.0f B) | %.1f (%.0f B) |\n",
		name, w.batch, w.clients, count(nothing.perSecond), count(memory.perSecond), count(durable.perSecond),
		durable.perSecond/nothing.perSecond, old, ratio, memory.objects, memory.bytes, durable.objects, durable.bytes)
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

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
