package main

import (
	"fmt"
	"html"
	"strings"
)

// bars are the cells of the chart, with how they are called there.
var bars = []struct{ key, label string }{ //nolint:gochecknoglobals // a table
	{"early-1000", "Lovage, early ack, 1,000 slots"},
	{"early-64", "Lovage, early ack, 64 slots"},
	{"late-64", "Lovage, late ack, 64 slots"},
	{"late-results-64", "Lovage, late ack, results, 64 slots"},
	{"asynq", "asynq on Redis, 64 slots"},
	{"gocelery", "gocelery on Redis, results, 64 slots"},
	{"celery-threads", "Celery threads on Redis"},
	{"celery-gevent", "Celery gevent on Redis"},
	{"celery-prefork", "Celery prefork on Redis"},
	{"celery-prefork-results", "Celery prefork on Redis, results"},
}

// Sizes of the chart in pixels.
const (
	chartWidth  = 860
	barHeight   = 22
	barGap      = 8
	labelWidth  = 280
	numberWidth = 90
	titleHeight = 56
)

// chart draws the rates of no-op tasks as SVG.
func (r *report) chart() string {
	var lines []*line
	var labels []string
	longest := 0.0
	for _, bar := range bars {
		if l := r.line(bar.key); l != nil {
			lines, labels = append(lines, l), append(labels, bar.label)
			longest = max(longest, l.Rate)
		}
	}
	height := titleHeight + len(lines)*(barHeight+barGap) + barGap
	out := &strings.Builder{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(out, `<text x="12" y="24" font-size="16" fill="#1b1f24">No-op tasks a second, %d cores for everything, higher is better</text>`+"\n", r.Machine.Cores)
	fmt.Fprintf(out, `<text x="12" y="44" fill="#57606a">%s</text>`+"\n", html.EscapeString(r.Machine.Processor+", "+r.Date.UTC().Format("2006-01-02")))
	for i, l := range lines {
		drawBar(out, titleHeight+i*(barHeight+barGap), labels[i], l, longest)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func drawBar(out *strings.Builder, top int, label string, l *line, longest float64) {
	width := 0.0
	if longest > 0 {
		width = max(1, l.Rate/longest*(chartWidth-labelWidth-numberWidth))
	}
	color := "#9aa4af"
	if l.cell.system == systemLovage {
		color = "#2f7d4f"
	}
	const baseline = 16
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end" fill="#1b1f24">%s</text>`, labelWidth-10, top+baseline, html.EscapeString(label))
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`, labelWidth, top, width, barHeight, color)
	fmt.Fprintf(out, `<text x="%.1f" y="%d" fill="#1b1f24">%s</text>`+"\n", labelWidth+width+8, top+baseline, count(l.Rate))
}
