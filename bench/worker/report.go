package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// report is everything that a run found out; it is the JSON file.
type report struct {
	Date     time.Time      `json:"date"`
	Took     string         `json:"took"`
	Quick    bool           `json:"quick,omitempty"`
	Rounds   int            `json:"rounds"`
	Window   string         `json:"window"`
	Machine  machine        `json:"machine"`
	Lines    []*line        `json:"lines"`
	Latency  []*latencyLine `json:"latencies"`
	Starts   []*startLine   `json:"starts"`
	Binary   int64          `json:"binary_bytes"`
	Targets  []target       `json:"targets"`
	Versions []string       `json:"versions"`
}

// machine is what the figures depend on.
type machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	// Load is the number of processes that wanted a core, in the minute before the run.
	Load   float64 `json:"load_before"`
	System string  `json:"system"`
}

// line is a cell with its figures, one of each for every round.
type line struct {
	cell cell

	Key         string `json:"key"`
	What        string `json:"what"`
	Handler     string `json:"handler"`
	Broker      string `json:"broker"`
	Payload     string `json:"payload"`
	Acks        string `json:"acks"`
	Results     string `json:"results"`
	Concurrency int    `json:"concurrency"`
	Counted     string `json:"counted"`

	Rates   []float64 `json:"tasks_per_second"`
	CPU     []float64 `json:"cpu_microseconds_per_task"`
	Objects []float64 `json:"allocations_per_task"`
	Bytes   []float64 `json:"allocated_bytes_per_task"`
	Memory  []float64 `json:"memory_bytes"`

	Rate    float64 `json:"median_tasks_per_second"`
	Spread  float64 `json:"spread"` // (largest - smallest) / median
	Against string  `json:"against,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"` // median of the rounds' ratios
}

func newLine(c cell) *line {
	return &line{
		cell: c, Key: c.key, What: c.name(), Handler: c.handler(), Broker: c.broker, Payload: c.size(), Acks: c.acks(),
		Results: c.stores(), Concurrency: c.slots, Counted: c.counted(), Against: c.against,
	}
}

func (l *line) add(f figure) {
	l.Rates, l.CPU = append(l.Rates, f.Rate), append(l.CPU, f.CPU)
	l.Objects, l.Bytes = append(l.Objects, f.Objects), append(l.Bytes, f.Bytes)
	l.Memory = append(l.Memory, f.Memory)
}

func newReport(o options) *report {
	return &report{
		Date: time.Now(), Quick: o.quick, Rounds: o.rounds, Window: o.window.String(), Machine: thisMachine(),
	}
}

func thisMachine() machine {
	m := machine{Processor: "unknown", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &m.Load) // 0 is as good as unknown
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.Processor = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
			break
		}
	}
	return m
}

// line finds a cell's; nil if it was not measured.
func (r *report) line(key string) *line {
	for _, l := range r.Lines {
		if l.Key == key {
			return l
		}
	}
	return nil
}

// conclude computes what needs all rounds.
func (r *report) conclude() *report {
	for _, l := range r.Lines {
		l.Rate, l.Spread = median(l.Rates), spread(l.Rates)
		if reference := r.line(l.Against); reference != nil {
			l.Ratio = median(ratios(l.Rates, reference.Rates))
		}
	}
	for _, l := range r.Latency {
		l.conclude()
	}
	r.Targets = targetsOf(r)
	return r
}

// publish prints the report and writes it wherever it should be.
func (b *bench) publish(r *report) error {
	if info, err := os.Stat(b.programs.lovage); err == nil {
		r.Binary = info.Size()
	}
	table := r.markdown()
	if _, err := fmt.Print(table); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	return errors.Join(err,
		writeFile(b.options.json, append(encoded, '\n')),
		writeFile(b.options.chart, []byte(r.chart())),
		replaceBlock(b.options.document, "bench", table),
	)
}

// writeFile writes a file whose name may be "" for none.
func writeFile(path string, text []byte) error {
	if path == "" {
		return nil
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // figures are for everybody
}

// replaceBlock writes a block of the document, which stands between two comments with
// its name. path may be "" for none.
func replaceBlock(path, name, block string) error {
	if path == "" {
		return nil
	}
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	text, err := os.ReadFile(path) //nolint:gosec // the user's choice
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %s and %s to write between", path, begin, end)
	}
	return writeFile(path, []byte(before+begin+"\n"+block+end+after))
}
